"""What runs on the host behind ./lab: engine, images, runs. Nothing here is imported in a container."""
