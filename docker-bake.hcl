# All of the lab's own images for all architectures; docs/release.md says how. Always name this file, or Compose files are
# read too: docker buildx bake -f docker-bake.hcl --print

variable "LAB_REGISTRY" {
  # Where to, with its slash, as in .env: registry.example.org/lab/
  default = "localhost/"
}

variable "LAB_TAG" {
  default = "0.1.0"
}

variable "BASE_IMAGE" {
  default = "debian:trixie-slim"
}

variable "PYTHON2_MIRROR" {
  # A snapshot of Debian 11 for the printed clients, once mirrors drop it. Empty: the base image's own mirror.
  default = ""
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
  targets = ["services", "printed", "images", "flood", "report"]
}

# What a Raspberry Pi needs.
group "rpi" {
  targets = ["bridge"]
}

target "common" {
  context   = "."
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
  name     = service
  inherits = ["common"]
  matrix = {
    service = ["controller", "bridge", "exporter", "treatments", "prepare", "sqlclient"]
  }
  dockerfile = "images/base/Dockerfile"
  target     = service
  tags       = ["${LAB_REGISTRY}looplab/${service}:${LAB_TAG}"]
}

target "printed" {
  inherits   = ["common"]
  dockerfile = "images/base/Dockerfile"
  target     = "printed"
  tags       = ["${LAB_REGISTRY}looplab/printed:${LAB_TAG}"]
  args = {
    PYTHON2_MIRROR = PYTHON2_MIRROR
    PRINTED        = "required"
  }
}

target "images" {
  name     = image
  inherits = ["common"]
  matrix = {
    image = ["link", "capture", "robot", "stress", "rabbitmq", "mochi", "asip_java", "magistrala", "devices"]
  }
  dockerfile = "images/${replace(image, "_", "-")}/Dockerfile"
  tags       = ["${LAB_REGISTRY}looplab/${image}:${LAB_TAG}"]
}

target "flood" {
  inherits = ["common"]
  context  = "images/flood"
  target   = "flood"
  tags     = ["${LAB_REGISTRY}looplab/flood:${LAB_TAG}"]
}

target "report" {
  inherits   = ["common"]
  context    = "src"
  dockerfile = "../images/report/Dockerfile"
  tags       = ["${LAB_REGISTRY}looplab/report:${LAB_TAG}"]
}
