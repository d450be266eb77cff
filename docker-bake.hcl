# All of the lab's own images for all architectures; docs/release.md says how. Always name this file, or Compose files are
# read too: docker buildx bake -f docker-bake.hcl --print

variable "REGISTRY" {
  # Where to, with its slash: registry.example.org/lab/
  default = ""
}

variable "LAB_TAG" {
  default = "0.1.0"
}

variable "BASE_IMAGE" {
  # scripts/pin-images gives the digest: debian:trixie-slim@sha256:…
  default = "debian:trixie-slim"
}

variable "PLATFORMS" {
  # amd64, arm64 and armhf in Debian's words.
  default = "linux/amd64,linux/arm64,linux/arm/v7"
}

group "default" {
  targets = ["services", "link", "capture", "robot", "stress", "flood"]
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
}

target "services" {
  name     = "services-${service}"
  inherits = ["common"]
  matrix = {
    service = ["controller", "bridge", "exporter", "treatments", "prepare"]
  }
  context    = "."
  dockerfile = "images/base/Dockerfile"
  target     = service
  tags       = ["${REGISTRY}looplab/${service}:${LAB_TAG}"]
}

target "link" {
  inherits   = ["common"]
  context    = "."
  dockerfile = "images/link/Dockerfile"
  tags       = ["${REGISTRY}looplab/link:${LAB_TAG}"]
}

target "capture" {
  inherits   = ["common"]
  context    = "."
  dockerfile = "images/capture/Dockerfile"
  tags       = ["${REGISTRY}looplab/capture:${LAB_TAG}"]
}

target "robot" {
  inherits   = ["common"]
  context    = "."
  dockerfile = "images/robot/Dockerfile"
  tags       = ["${REGISTRY}looplab/robot:${LAB_TAG}"]
}

target "stress" {
  inherits = ["common"]
  context  = "images/stress"
  tags     = ["${REGISTRY}looplab/stress:${LAB_TAG}"]
}

target "flood" {
  inherits = ["common"]
  context  = "images/flood"
  tags     = ["${REGISTRY}looplab/flood:${LAB_TAG}"]
}
