insert into account values (7, 'acme', 'Acme', 'unlimited', '{}', 1, 1, 8, false, null, 1000, '');
insert into connection values (7, 1, 'local', '{}', '', 1000, '{}', null, null, null, '');
insert into api_key values ('819395ea52fab193121ba6c4aa9e9a908cddb3b59b2ac7ba17202540a9bfd8d3', 7, 'key_1', 'kkkk', '', 1000, null, null, null, 'Shop');
insert into webhook_id values ('generated', 7, 'generated', 1000, null), ('portal', 7, 'portal', 1000, null);
insert into property_def values
    (7, 1, 1, 'firstname', 'First name', 'string', '', false, false, false, true, false, '', '[]'),
    (7, 2, 1, 'lastname', 'Last name', 'string', '', false, false, false, true, false, '', '[]'),
    (7, 3, 1, 'email', 'Email', 'email', '', false, true, false, true, false, '', '[]'),
    (7, 4, 1, 'phone', 'Phone number', 'phone', '', false, false, false, true, false, '', '[]'),
    (7, 5, 1, 'city', 'City', 'string', '', false, false, false, true, false, '', '[]'),
    (7, 6, 2, 'dealname', 'Deal name', 'string', '', true, false, false, true, false, '', '[]'),
    (7, 7, 2, 'amount', 'Amount', 'currency', '', false, false, false, true, false, '', '[]');
insert into records values (7, 1, 101, 2000, 2000, 1, '{"email":"ann@x.org","lastname":"Lee","city":"Rome"}');
insert into ix_text values
    (7, 2, 'Lee', 101, null, 'lee', 2000), (7, 3, 'ann@x.org', 101, null, null, 2000), (7, 5, 'Rome', 101, null, 'rome', 2000);
insert into unique_value values (7, 3, 'ann@x.org', 101);
insert into record_count values (7, 1, 0, 1), (7, 2, 0, 0), (7, 3, 0, 0), (7, 4, 0, 0);
insert into id_block values (7, 1, 201);
insert into binding values
    (7, 1, 'hub-1', 'hub-p', 't', '101', 'ann@x.org', null, 2000, '{"email": "ann@x.org", "lastname": "Lee"}', 2000, '{"email": 2000, "lastname": 2000}');
insert into action values
    (7, 'act-0mx02ew1urc30j0htdurmojs', 1, 'createDeal', 'hub-p', '101', 'queued', '{"contact_id": "101", "properties": {"dealname": "Big", "amount": "12.5"}}', null, 0, 2000, null, 9000000000000, null, null, 'an identity', null, '', null, 2000, null, null, null, null, null, null);
insert into audit (at, author_kind, author, author_id, verb, object, object_id, account_id, was, became)
    values (1000, 'cli', 'ops', '', 'open', 'account', 'acme', 7, '{}', '{"name": "Acme"}');
insert into console_user values ('usr_1', 'ops@example.com', 'a hash', 1000, null, null, 'owner', null, null, '', 0);
