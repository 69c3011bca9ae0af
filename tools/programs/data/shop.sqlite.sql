-- sqlite in memory: tables of text and numbers with indices, filled, joined, updated and partly deleted. ROWS is set before.
create table word (number integer primary key, text text);
insert into word (text) values ('value'), ('object'), ('returns'), ('when'), ('method'), ('class'), ('argument'), ('default'), ('name'),
  ('number'), ('result'), ('list'), ('order'), ('customer'), ('price'), ('delivery'), ('late'), ('early'), ('parcel'), ('broken'),
  ('please'), ('refund'), ('invoice'), ('payment'), ('address'), ('street'), ('city'), ('leave'), ('door'), ('neighbour'), ('phone');
create table customer (id integer primary key, name text, email text unique, city text, balance real, note text);
create table purchase (id integer primary key, customer integer, sku text, quantity integer, price real, moment integer);
create index customer_city on customer (city, name);
create index purchase_customer on purchase (customer, moment);
create index purchase_sku on purchase (sku);
insert into customer
  with recursive counted (n) as (select 1 union all select n + 1 from counted where n < (select rows from size))
  select n, a.text || ' ' || b.text || ' ' || n, a.text || '.' || (n * 7919 % 1000003) || '@example.com', c.text,
    (n * 2654435761 % 1000000) / 100.0, b.text || ' ' || c.text || ' ' || a.text || ' before ' || d.text || ' at the ' || c.text
  from counted
  join word a on a.number = 1 + n * 31 % 31 + n % 30 join word b on b.number = 1 + n / 7 % 31
  join word c on c.number = 1 + n / 3 % 31 join word d on d.number = 1 + n * n % 31;
insert into purchase
  with recursive counted (n) as (select 1 union all select n + 1 from counted where n < 3 * (select rows from size))
  select n, 1 + n * 48271 % (select rows from size), 'SKU-' || (100000 + n * 16807 % 40000), 1 + n % 6, (n * 69621 % 20000) / 100.0,
    1700000000 + n * 7 from counted;
select 'filled', count(*), sum(length(note)) from customer;
select 'filled', count(*), sum(quantity * price) from purchase;
select city, count(*), round(sum(quantity * price), 2), max(sku) from customer join purchase on purchase.customer = customer.id
  group by city order by city;
update customer set note = note || ', changed', balance = balance * 2 where id % 8 = 3;
delete from purchase where id % 11 = 3;
select sku, count(*), sum(quantity) from purchase group by sku order by 2 desc, 1 limit 20;
select name, email, note from customer where city = 'door' order by name desc limit 20;
select sum(length(name) * id % 9973), sum(length(email) * id % 9967), total(balance), sum(length(note)) from customer;
select sum(id * customer % 9973), sum(moment % 9967), count(distinct sku) from purchase;
pragma integrity_check;
