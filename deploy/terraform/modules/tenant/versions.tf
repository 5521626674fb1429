terraform {
  required_version = ">= 1.11"

  required_providers {
    packetboat = {
      source  = "packetboat/packetboat"
      version = ">= 0.2.0"
    }
  }
}
