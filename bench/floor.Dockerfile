# The C floor under the lab's Python: docker build -t localhost/looplab/floor:dev -f bench/floor.Dockerfile bench
ARG BASE_IMAGE=debian:trixie-slim
FROM ${BASE_IMAGE} AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc libc6-dev libmosquitto-dev \
 && rm -rf /var/lib/apt/lists/*
COPY floor.c /
RUN gcc -std=gnu11 -O2 -Wall -Wextra -Werror -o /floor /floor.c -lmosquitto -pthread

FROM ${BASE_IMAGE}
RUN groupadd --gid 10007 floor \
 && useradd --uid 10007 --gid 10007 --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin floor \
 && apt-get update \
 && apt-get install -y --no-install-recommends libmosquitto1 \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /floor /usr/local/bin/floor
USER 10007:10007
ENTRYPOINT ["/usr/local/bin/floor"]
