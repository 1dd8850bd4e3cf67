{% materialization table_writer, adapter='spark', supported_languages=['sql', 'python'] %}
  {%- set target = this.incorporate(type='table') -%}
  {%- set options = config.get('meta', {}).get('table_writer', {}) -%}
  {%- set how -%}
    {"partition_by": {{ (config.get('partition_by') or []) | tojson }}, "full_refresh": {{ should_full_refresh() }}, "options": {{ options }}}
  {%- endset -%}
  {{ run_hooks(pre_hooks) }}
  {%- call statement('main', language='python') -%}
from table_writer.integrations.dbt import publish, publish_sql
{% if model['language'] == 'sql' -%}
publish_sql(spark, {{ compiled_code | tojson | tojson }}, {{ target | string | tojson }}, {{ how }})
{%- else -%}
{{ compiled_code }}
publish(model(dbtObj(spark.table), spark), {{ target | string | tojson }}, {{ how }})
{%- endif %}
  {%- endcall -%}
  {% do persist_docs(target, model) %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target]}) }}
{% endmaterialization %}
