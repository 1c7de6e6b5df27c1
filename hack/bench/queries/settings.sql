-- The server's version and what decides how durable a commit is.
SELECT current_setting('server_version'),
       current_setting('fsync'),
       current_setting('full_page_writes'),
       current_setting('synchronous_commit')
