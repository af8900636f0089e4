{{ config(materialized='table', partition_by='item') }}
select sum(amount) as amount, count(*) as orders, item from {{ ref('orders') }} group by item
