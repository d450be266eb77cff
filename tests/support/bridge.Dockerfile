# The bridge's image with what its tests need; see scripts/prove-architecture.
ARG BRIDGE=looplab/bridge:0.1.0
FROM ${BRIDGE}
USER root
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      mosquitto python3-pytest python3-pytest-timeout python3-yaml \
 && rm -rf /var/lib/apt/lists/*
USER 10002:10002
ENTRYPOINT []
