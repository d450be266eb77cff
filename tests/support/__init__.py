"""What tests share: brokers, child processes, doubles, containers and stored runs."""
