{% snapshot orders_over_time %}
{{ config(target_schema=target.schema, unique_key='id', strategy='timestamp', updated_at='changed_at') }}
select * from {{ ref('orders') }}
{% endsnapshot %}
