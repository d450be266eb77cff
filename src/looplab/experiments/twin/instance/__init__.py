"""The twin instance: subscribes to every broker and stores each message in PostgreSQL."""
