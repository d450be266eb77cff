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

-- The last temperature of each device of the newest run: what a twin is asked for.
CREATE VIEW twin_state AS
SELECT DISTINCT ON (device)
    run, device, sequence, stored_at,
    split_part(convert_from(payload, 'SQL_ASCII'), ',', 5)::numeric AS temperature_c
FROM message
WHERE run = (SELECT run FROM message ORDER BY stored_at DESC LIMIT 1)
ORDER BY device, sequence DESC;

CREATE ROLE twin_writer LOGIN PASSWORD :'writer';
CREATE ROLE twin_reader LOGIN PASSWORD :'reader';
REVOKE ALL ON SCHEMA public FROM public;
GRANT USAGE ON SCHEMA public TO twin_writer, twin_reader;
GRANT INSERT, SELECT ON message TO twin_writer;
GRANT SELECT ON message, twin_state TO twin_reader;
