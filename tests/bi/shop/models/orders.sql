{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id') }}
select id, item, amount, changed_at from {{ ref('raw_orders') }}
{% if is_incremental() %}
where changed_at > (select max(changed_at) from {{ this }})
{% endif %}
