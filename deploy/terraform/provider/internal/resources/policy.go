package resources

import "github.com/packetboat/terraform-provider-packetboat/internal/shape"

// Policy gives a role to members.
func Policy() Kind {
	return Kind{
		Name: "policy", Collection: "/policies", Body: "PolicyBody", Answer: "Policy",
		Text:       "Who may do what on which names, in a tenant.",
		ForceOwner: true,
		Options: shape.Options{
			"role":      {Text: "What its members may do: docs/guides/access-control.md has the table."},
			"members":   {Set: true},
			"resources": {Set: true},
		},
	}
}
