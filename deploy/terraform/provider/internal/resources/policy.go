package resources

import "github.com/packetboat/terraform-provider-packetboat/internal/shape"

// Policy gives a role to members.
func Policy() Kind {
	return Kind{
		Name: "policy", Collection: "/policies", Body: "PolicyBody", Answer: "Policy",
		Text:       "A role of members on resources of a tenant.",
		ForceOwner: true,
		Options: shape.Options{
			"role":      {Text: "The role of its members; docs/guides/access-control.md has the permissions of each."},
			"members":   {Set: true},
			"resources": {Set: true},
		},
	}
}
