# The bridge's image with what its tests need; see scripts/prove-architecture.
ARG BASE_IMAGE=debian:trixie-slim
ARG BRIDGE=localhost/looplab/bridge:0.1.0
FROM ${BRIDGE} AS bridge

FROM ${BASE_IMAGE}
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      mosquitto python3-pytest python3-pytest-timeout python3-yaml \
 && rm -rf /var/lib/apt/lists/*
# On top of that, so that the tests run with the bridge's own Python and libraries.
# hadolint ignore=DL3067
COPY --from=bridge / /
ENV PYTHONPATH=/opt/looplab PYTHONUNBUFFERED=1
USER 10002:10002
