-- Any session may lift its own statement_timeout: this one, the owner's, ends what a viewer sends after 2 to 3 s.
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE usename = 'twin_viewer' AND state = 'active' AND query_start < clock_timestamp() - interval '2 s'
\watch 1
