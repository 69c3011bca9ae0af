-- postgres with a large work_mem: sorts, hash joins and hash aggregates that stay in memory.
create temp table customer as
  select n as id, (array['new', 'loyal', 'lost', 'gold'])[1 + n % 4] as segment, 'customer ' || n || ' of street ' || n * 31 % 997 as name
  from generate_series(1, :rows / 4) n;
create temp table purchase as
  select n as id, (1 + n::bigint * 48271 % (:rows / 4))::int as customer, 'SKU-' || (100000 + n::bigint * 16807 % 40000) as sku,
    (n::bigint * 69621 % 20000) / 100.0 as price, 'please leave the parcel at the door of neighbour ' || n % 1000 as note
  from generate_series(1, :rows) n;
analyze customer; analyze purchase;
select 'filled', (select count(*) from customer), (select count(*) from purchase);
select segment, count(*), sum(price), max(note) from purchase join customer on purchase.customer = customer.id group by segment order by segment;
select md5(string_agg(customer || ':' || total || ':' || skus, ',' order by customer)) from
  (select customer, sum(price) as total, count(distinct sku) as skus from purchase group by customer) as by_customer;
select md5(string_agg(id::text, ',')) from (select id from purchase order by note, sku desc, price, id) as ordered;
select count(*), md5(string_agg(name || note, '' order by id)) from
  (select purchase.id, name, note from purchase join customer on customer.id = purchase.customer where purchase.id % 3 = 0) as joined;
select count(*), sum(length(words)) from (select customer, string_agg(note || sku, ';' order by id) as words from purchase group by customer) as texts;
