package resources

import "github.com/packetboat/terraform-provider-packetboat/internal/shape"

// Client is who gets access tokens with an id and a secret.
func Client() Kind {
	secret := secret{attribute: "client_secret", renewAt: "/secrets", removable: true}
	return Kind{
		Name: "client", Collection: "/clients", Body: "ClientBody", Answer: "Client",
		Text: "A program that gets access tokens with its id and its secret (OAuth2). Policies grant its " +
			"permissions.",
		ForceOwner: true,
		Options: shownSecrets(shape.Options{
			"client_id":         {Stable: true},
			"tokens_valid_from": {OnlyRead: true},
			"last_used_at":      {OnlyRead: true},
		}),
		Own:  secret.attributes("Its secret at /oauth/token."),
		Plan: secret.plan, Made: secret.made, Changed: secret.changed,
	}
}
