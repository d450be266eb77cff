"""Ask Docker and Compose: images, builds, containers."""
