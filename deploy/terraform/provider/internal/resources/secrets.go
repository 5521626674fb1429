package resources

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/packetboat/terraform-provider-packetboat/internal/client"
	"github.com/packetboat/terraform-provider-packetboat/internal/contract"
	"github.com/packetboat/terraform-provider-packetboat/internal/shape"
)

const (
	versionAttribute = "secret_version"
	overlapAttribute = "old_secret_seconds"
	overlapMember    = "old_expires_in_seconds"
)

// secret is one that the server makes and shows once: in which attribute it is kept, and how
// another is made.
type secret struct {
	attribute string
	// renewAt is the path to make another at, after the thing's own.
	renewAt string
	// removable: a single one can be removed, by how it begins.
	removable bool
}

// shownSecrets adds what data sources have of secrets.
func shownSecrets(options shape.Options) shape.Options {
	options["secrets"] = shape.Option{OnlyRead: true}
	return options
}

// attributes are those of a kind that has such a secret.
func (s secret) attributes(text string) map[string]*shape.Shape {
	overlap := contract.Schema("Rotation").Properties[overlapMember]
	fallback, _ := overlap.DefaultValue()
	seconds := shape.OfOwn(shape.Integer, "For how long the present secret holds beside one that "+
		"follows it.", fallback)
	seconds.Limits = overlap
	return map[string]*shape.Shape{
		s.attribute: shape.OfSecret(text + " Null after an import, as the server shows it once."),
		versionAttribute: shape.OfOwn(shape.Text, "Any text of yours: another one makes another secret. "+
			"After an import it makes one that Terraform knows.", nil),
		overlapAttribute: seconds,
	}
}

// plan says that the secret will be another, where it will.
func (s secret) plan(
	ctx context.Context, call Call, _ resource.ModifyPlanRequest, answer *resource.ModifyPlanResponse,
) {
	if call.Prior != nil && call.Plan != nil && s.renewed(ctx, call) {
		answer.Diagnostics.Append(
			answer.Plan.SetAttribute(ctx, path.Root(s.attribute), types.StringUnknown())...)
	}
}

// renewed: the plan has a version, and not the one that there was.
func (s secret) renewed(ctx context.Context, call Call) bool {
	var before, planned types.String
	call.Prior.GetAttribute(ctx, path.Root(versionAttribute), &before)
	call.Plan.GetAttribute(ctx, path.Root(versionAttribute), &planned)
	return !planned.IsNull() && !planned.Equal(before)
}

// made: a secret that was in an answer that did not come is nobody's, so it holds no longer.
func (s secret) made(ctx context.Context, call Call, answer *client.Answer, lost bool) error {
	if !lost {
		return nil
	}
	return s.renew(ctx, call, answer, json.Number("0"))
}

func (s secret) changed(ctx context.Context, call Call, answer *client.Answer) error {
	if !s.renewed(ctx, call) {
		return nil
	}
	var seconds types.Int64
	call.Plan.GetAttribute(ctx, path.Root(overlapAttribute), &seconds)
	return s.renew(ctx, call, answer, seconds.ValueInt64())
}

// renew makes another secret. Where the answer did not come that had it, nobody knows the one that
// was made then, if it was: it makes way for another.
func (s secret) renew(ctx context.Context, call Call, answer *client.Answer, overlap any) error {
	renewed, err := s.ask(ctx, call, overlap)
	var unknown *client.Unknown
	if errors.As(err, &unknown) {
		renewed, err = s.ask(ctx, call, overlap)
		if s.removable && client.IsRefused(err, "too-many-secrets") {
			if err = s.removeLost(ctx, call); err == nil {
				renewed, err = s.ask(ctx, call, overlap)
			}
		}
	}
	if err == nil {
		*answer = renewed
	}
	return err
}

func (s secret) ask(ctx context.Context, call Call, overlap any) (client.Answer, error) {
	return call.Client.Do(ctx, client.Request{
		Method: http.MethodPost, Path: call.Path + s.renewAt, Tenant: call.Tenant,
		Body: map[string]any{overlapMember: overlap}, Once: true,
	})
}

// removeLost: the newest is the one without an end, as it gave one to that before it.
func (s secret) removeLost(ctx context.Context, call Call) error {
	found, err := call.Do(ctx, http.MethodGet, call.Path, nil)
	if err != nil {
		return err
	}
	secrets, _ := found.Body["secrets"].([]any)
	for _, one := range secrets {
		shown, _ := one.(map[string]any)
		if prefix, ok := shown["prefix"].(string); ok && shown["expires_at"] == nil {
			_, err := call.Do(ctx, http.MethodDelete, call.Path+s.renewAt+"/"+url.PathEscape(prefix), nil)
			return err
		}
	}
	return nil
}
