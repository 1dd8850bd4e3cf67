{{ config(materialized='view') }}
SELECT * FROM VALUES (1, 9.5D, '2024-01-01'), (2, 20.0D, '2024-01-02'), (3, -1.0D, '2024-01-02') AS orders(id, amount, dt)
