package resources

import "github.com/packetboat/terraform-provider-packetboat/internal/shape"

// Policy gives a role to members.
func Policy() Kind {
	return Kind{
		Name: "policy", Collection: "/policies", Body: "PolicyBody", Answer: "Policy",
		Text:       "A role of members on resources of a tenant.",
		ForceOwner: true,
		Options: shape.Options{
			"role":      {Also: "docs/guides/access-control.md lists them."},
			"members":   {Set: true},
			"resources": {Set: true},
		},
	}
}
