# All of the lab's own images for all architectures; docs/release.md says how. Always name this file, or Compose files are
# read too: docker buildx bake -f docker-bake.hcl --print

variable "LAB_REGISTRY" {
  # Where to, with its slash, as in .env: registry.example.org/lab/
  default = ""
}

variable "LAB_TAG" {
  default = "0.1.0"
}

variable "BASE_IMAGE" {
  # scripts/pin-images gives the digest: debian:trixie-slim@sha256:…
  default = "debian:trixie-slim"
}

variable "REVISION" {
  # The commit that is built: git rev-parse HEAD
  default = ""
}

variable "PLATFORMS" {
  # amd64, arm64 and armhf in Debian's words.
  default = "linux/amd64,linux/arm64,linux/arm/v7"
}

group "default" {
  targets = ["services", "link", "capture", "robot", "stress", "flood", "asip_java", "magistrala", "devices"]
}

# What a Raspberry Pi needs.
group "rpi" {
  targets = ["services-bridge"]
}

target "common" {
  platforms = split(",", PLATFORMS)
  args = {
    BASE_IMAGE = BASE_IMAGE
  }
  labels = {
    "org.opencontainers.image.version"  = LAB_TAG
    "org.opencontainers.image.revision" = REVISION
  }
}

target "services" {
  name     = "services-${service}"
  inherits = ["common"]
  matrix = {
    service = ["controller", "bridge", "exporter", "treatments", "prepare", "sqlclient"]
  }
  context    = "."
  dockerfile = "images/base/Dockerfile"
  target     = service
  tags       = ["${LAB_REGISTRY}looplab/${service}:${LAB_TAG}"]
}

target "link" {
  inherits   = ["common"]
  context    = "."
  dockerfile = "images/link/Dockerfile"
  tags       = ["${LAB_REGISTRY}looplab/link:${LAB_TAG}"]
}

target "capture" {
  inherits   = ["common"]
  context    = "."
  dockerfile = "images/capture/Dockerfile"
  tags       = ["${LAB_REGISTRY}looplab/capture:${LAB_TAG}"]
}

target "robot" {
  inherits   = ["common"]
  context    = "."
  dockerfile = "images/robot/Dockerfile"
  tags       = ["${LAB_REGISTRY}looplab/robot:${LAB_TAG}"]
}

target "stress" {
  inherits   = ["common"]
  context    = "."
  dockerfile = "images/stress/Dockerfile"
  tags       = ["${LAB_REGISTRY}looplab/stress:${LAB_TAG}"]
}

target "flood" {
  inherits = ["common"]
  context  = "images/flood"
  tags     = ["${LAB_REGISTRY}looplab/flood:${LAB_TAG}"]
}

target "asip_java" {
  inherits   = ["common"]
  context    = "."
  dockerfile = "images/asip-java/Dockerfile"
  tags       = ["${LAB_REGISTRY}looplab/asip_java:${LAB_TAG}"]
}

target "magistrala" {
  inherits   = ["common"]
  context    = "."
  dockerfile = "images/magistrala/Dockerfile"
  tags       = ["${LAB_REGISTRY}looplab/magistrala:${LAB_TAG}"]
}

target "devices" {
  inherits   = ["common"]
  context    = "."
  dockerfile = "images/devices/Dockerfile"
  tags       = ["${LAB_REGISTRY}looplab/devices:${LAB_TAG}"]
}
