package resources

import "github.com/packetboat/terraform-provider-packetboat/internal/shape"

// APIKey is for what cannot ask for access tokens.
func APIKey() Kind {
	secret := secret{attribute: "key", renewAt: ":rotate"}
	return Kind{
		Name: "api_key", Collection: "/keys", Body: "KeyBody", Answer: "Key",
		Text: "A token that is sent with every request, for programs that cannot request access tokens. " +
			"Its scopes are its permissions.",
		ForceOwner: true,
		Options: shownSecrets(shape.Options{
			"scopes":       {Set: true},
			"key_id":       {Stable: true},
			"prefix":       {Stable: true},
			"last_used_at": {OnlyRead: true},
		}),
		Own:  secret.attributes("The key itself."),
		Plan: secret.plan, Made: secret.made, Changed: secret.changed,
	}
}
