{{ config(materialized='table_writer') }}
-- readers of "daily" see all of a run's rows, or all of the one before
SELECT dt, count(*) AS orders, sum(amount) AS amount FROM {{ ref('orders') }} GROUP BY dt
