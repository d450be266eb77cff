-- The twin's memory. Times in ns of the monotonic clock of the machine that runs the lab.
CREATE TABLE message (
    run text NOT NULL,
    device integer NOT NULL,
    sequence bigint NOT NULL,
    sent_ns bigint NOT NULL,
    arrived_ns bigint NOT NULL,
    stored_at timestamptz NOT NULL DEFAULT now(),
    payload bytea NOT NULL,
    PRIMARY KEY (run, device, sequence)
);

-- The last temperature of each device of the newest run: what a twin is asked for. One index look-up a run and device.
CREATE VIEW twin_state AS
WITH RECURSIVE kept AS (
    (SELECT run, device FROM message ORDER BY run, device LIMIT 1)
    UNION ALL
    SELECT next.run, next.device
    FROM kept, LATERAL (
        SELECT run, device FROM message
        WHERE (run, device) > (kept.run, kept.device) ORDER BY run, device LIMIT 1
    ) AS next
),
newest AS (
    SELECT last.* FROM kept, LATERAL (
        SELECT run, device, sequence, stored_at, payload FROM message AS m
        WHERE m.run = kept.run AND m.device = kept.device ORDER BY sequence DESC LIMIT 1
    ) AS last
)
SELECT
    run, device, sequence, stored_at,
    split_part(convert_from(payload, 'SQL_ASCII'), ',', 5)::numeric AS temperature_c
FROM newest
WHERE run = (SELECT run FROM newest ORDER BY stored_at DESC LIMIT 1);

CREATE ROLE twin_writer LOGIN PASSWORD :'writer';
CREATE ROLE twin_reader LOGIN PASSWORD :'reader';
-- No temporary table and no large object fills the disk.
REVOKE TEMPORARY ON DATABASE :"DBNAME" FROM public;
REVOKE EXECUTE ON FUNCTION lo_creat(integer), lo_create(oid), lo_from_bytea(oid, bytea) FROM public;
REVOKE ALL ON SCHEMA public FROM public;
GRANT USAGE ON SCHEMA public TO twin_writer, twin_reader;
GRANT INSERT, SELECT ON message TO twin_writer;
GRANT SELECT ON message, twin_state TO twin_reader;
