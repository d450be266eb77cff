"""Read the messages that Magistrala's writer has stored back from PostgreSQL."""

from collections.abc import Iterator, Mapping

from looplab.experiments.middleware.systems import OWNER, POSTGRES


def stored(hosts: Mapping[str, str], secrets: Mapping[str, str], prefix: str) -> Iterator[str]:
    """Yield the name of each row whose name begins with `prefix`. Raises OSError if the database cannot be read."""
    # Only the container that measures has it.
    import psycopg

    where = f"host={hosts['postgres']} port={POSTGRES} user={OWNER} dbname=messages connect_timeout=5"
    try:
        with (
            psycopg.connect(where, password=secrets["postgres"]) as connection,
            connection.cursor("names") as cursor,
        ):
            cursor.execute("SELECT name FROM messages WHERE starts_with(name, %s)", (prefix,))
            for (name,) in cursor:
                yield name
    except psycopg.Error as error:
        raise OSError(str(error)) from error
