package resources

import (
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/packetboat/terraform-provider-packetboat/internal/contract"
	"github.com/packetboat/terraform-provider-packetboat/internal/shape"
)

const (
	headersMember           = "headers"
	secretHeadersAttribute  = "secret_headers"
	headersVersionAttribute = "secret_headers_version"
)

// secretHeaders are headers that only the configuration has: the server does not show their values,
// and no state holds them. Their version tells that there are some, and when they are others.
func secretHeaders() map[string]*shape.Shape {
	made := shape.Member(contract.Schema("Push").Properties[headersMember], shape.Options{"": {
		WriteOnly: true, Sensitive: true,
		Instead: "As `push.headers`, but in no plan and no state. Written with each change of the " +
			"subscription; goes with secret_headers_version.",
	}})
	made.Answered = false
	return map[string]*shape.Shape{
		secretHeadersAttribute: made,
		headersVersionAttribute: shape.OfOwn(shape.Text,
			"Any text of yours: another one writes secret_headers again.", nil),
	}
}

// sendHeaders adds the secret ones.
func sendHeaders(body map[string]any) {
	secret, _ := body[secretHeadersAttribute].(map[string]any)
	delete(body, secretHeadersAttribute)
	if push, ok := body[pushAttribute].(map[string]any); ok && len(secret) > 0 {
		headers, _ := push[headersMember].(map[string]any)
		all := map[string]any{}
		maps.Copy(all, headers)
		maps.Copy(all, secret)
		push[headersMember] = all
	}
}

// completeHeaders leaves the secret ones out of the state: beside them, those that it had.
func completeHeaders(ctx context.Context, call Call, answer map[string]any) {
	push, _ := answer[pushAttribute].(map[string]any)
	shown, _ := push[headersMember].(map[string]any)
	var version types.String
	call.Get(ctx, path.Root(headersVersionAttribute), &version)
	if version.IsNull() || len(shown) == 0 {
		return
	}
	var open types.Map
	call.Get(ctx, path.Root(pushAttribute).AtName(headersMember), &open)
	kept := map[string]any{}
	for name := range open.Elements() {
		if value, ok := shown[name]; ok {
			kept[name] = value
		}
	}
	push[headersMember] = kept
}
