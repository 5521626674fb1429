// The Terraform provider of Packetboat: what an operator and the teams of a tenant keep there, as
// resources. README.md says how the folder is laid out.
package main

import (
	"context"
	"flag"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/packetboat/terraform-provider-packetboat/internal/provider"
)

const address = "registry.terraform.io/packetboat/packetboat"

// version is set by the build (`make terraform-provider`).
var version = "dev"

func main() {
	debug := flag.Bool("debug", false, "serve to a debugger: prints how Terraform is to attach")
	flag.Parse()
	options := providerserver.ServeOpts{Address: address, Debug: *debug, ProtocolVersion: 6}
	if err := providerserver.Serve(context.Background(), provider.New(version), options); err != nil {
		log.Fatal(err)
	}
}
