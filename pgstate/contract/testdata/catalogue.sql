-- Everything in the database that a person could have made, one line each, in an order of its own. Column numbers are
-- left out: what was added and dropped leaves a hole in them and nothing else.
with user_namespaces as (
    select oid, nspname from pg_namespace where nspname not like 'pg\_%' and nspname <> 'information_schema'
)
select line from (
    select format('schema %s %s %s', nspname, nspacl, obj_description(n.oid, 'pg_namespace')) from pg_namespace n where oid in (select oid from user_namespaces)
    union all
    select format('relation %s kind=%s owner=%s acl=%s options=%s rls=%s replica=%s comment=%s view=%s', c.oid::regclass, relkind, relowner::regrole, relacl, reloptions,
            relrowsecurity, relreplident, obj_description(c.oid, 'pg_class'), case relkind when 'v' then pg_get_viewdef(c.oid) end)
        from pg_class c where relnamespace in (select oid from user_namespaces)
    union all
    select format('column %s.%s %s not null=%s default=%s acl=%s storage=%s comment=%s position=%s', c.oid::regclass, attname, format_type(atttypid, atttypmod), attnotnull,
            pg_get_expr(adbin, adrelid), attacl, attstorage, col_description(c.oid, attnum),
            case when relkind = 'v' then attnum else row_number() over (partition by c.oid order by attnum) end)
        from pg_attribute a join pg_class c on c.oid = attrelid left join pg_attrdef d on d.adrelid = attrelid and d.adnum = attnum
        where attnum > 0 and not attisdropped and relnamespace in (select oid from user_namespaces)
    union all
    select format('constraint %s %s %s valid=%s', conrelid::regclass, conname, pg_get_constraintdef(oid), convalidated)
        from pg_constraint where connamespace in (select oid from user_namespaces)
    union all
    select format('index %s valid=%s', pg_get_indexdef(indexrelid), indisvalid) from pg_index i join pg_class c on c.oid = indexrelid
        where relnamespace in (select oid from user_namespaces)
    union all
    select format('trigger %s %s enabled=%s %s', tgrelid::regclass, tgname, tgenabled, pg_get_triggerdef(oid)) from pg_trigger where not tgisinternal
    union all
    select format('function %s owner=%s acl=%s comment=%s %s', oid::regprocedure, proowner::regrole, proacl, obj_description(oid, 'pg_proc'), pg_get_functiondef(oid))
        from pg_proc where pronamespace in (select oid from user_namespaces) and prokind in ('f', 'p')
    union all
    select format('type %s %s', oid::regtype, typtype) from pg_type where typnamespace in (select oid from user_namespaces)
    union all
    select format('operator %s', oid::regoperator) from pg_operator where oprnamespace in (select oid from user_namespaces)
    union all
    select format('extension %s', extname) from pg_extension
    union all
    select format('event trigger %s', evtname) from pg_event_trigger
    union all
    select format('default privileges %s %s %s', defaclrole::regrole, defaclobjtype, defaclacl) from pg_default_acl
    union all
    select format('publication %s', pubname) from pg_publication
    union all
    select format('policy %s %s', polrelid::regclass, polname) from pg_policy
    union all
    select format('statistics %s', stxname) from pg_statistic_ext
    union all
    select format('setting %s %s', setrole, setconfig) from pg_db_role_setting where setdatabase = (select oid from pg_database where datname = current_database())
) as dump(line)
order by line collate "C"
