// Package resources is what the provider keeps: each kind a declaration (kind.go) with what is
// special about it, over one way to make, read, change and remove (resource.go).
package resources

import (
	"context"
	"net/url"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"

	"github.com/packetboat/terraform-provider-packetboat/internal/client"
	"github.com/packetboat/terraform-provider-packetboat/internal/contract"
	"github.com/packetboat/terraform-provider-packetboat/internal/shape"
)

// Kind is a kind of thing that the API keeps. Its attributes are those of the contract's schemas
// Body and Answer, as Options say.
type Kind struct {
	// Name is that of its type, after `packetboat_`, and how texts call one.
	Name string
	// Text is what one is, for the documentation.
	Text string
	// Collection is the path of all of them: `/clients`. One is at Collection/NAME.
	Collection string
	// Body and Answer are names of the contract's schemas. BodyOfUpdate is Body unless it is set.
	Body, Answer, BodyOfUpdate string
	Options                    shape.Options
	// Own are attributes that the API does not have.
	Own map[string]*shape.Shape
	// ID is the attribute that names one: `name` unless it is set.
	ID string
	// AboveTenants: for operators, and of no tenant.
	AboveTenants bool

	// At is the path of one, where that is not Collection/NAME; the name is escaped.
	At func(name string) string
	// MadeAt is the path to make one at, where that is not Collection.
	MadeAt func(body map[string]any) string
	// Reset: it is there as soon as what it is of is there. Making one is changing it, and
	// destroying it changes it to what this answers.
	Reset func() map[string]any
	// Gone: an answer that says that it is on its way out.
	Gone func(answer map[string]any) bool
	// ForceOwner: an operator's calls say force=true, as somebody is left who may give roles.
	ForceOwner bool
	// Forced: destroying says force=true where the attribute `force_destroy` is true.
	Forced bool

	// Plan may refuse a plan, warn of it or change it, when all else of the plan is done. The plan
	// of a destroy is null.
	Plan func(context.Context, Call, resource.ModifyPlanRequest, *resource.ModifyPlanResponse)
	// Sending changes the body before it is sent; update is false for a create.
	Sending func(ctx context.Context, call Call, body map[string]any, update bool) error
	// Save is a change, where that is not one PUT of the body.
	Save func(ctx context.Context, call Call, body map[string]any, ifMatch string) (client.Answer, error)
	// Received changes an answer before it becomes the state.
	Received func(answer map[string]any)
	// Completed adds to it what other calls say, or what only Terraform has: after each read,
	// create and update of a resource.
	Completed func(ctx context.Context, call Call, answer map[string]any) error
	// Observed are attributes of data sources alone, which Observe adds to the answer.
	Observed map[string]*shape.Shape
	Observe  func(ctx context.Context, call Call, answer map[string]any) error
	// Made is called after a create. lost: an earlier try made it, and its answer did not come. It
	// may add to the answer what is said only then. Changed is called after an update.
	Made    func(ctx context.Context, call Call, answer *client.Answer, lost bool) error
	Changed func(ctx context.Context, call Call, answer *client.Answer) error
}

// Call is what hooks get: who asks, about which one, and what Terraform has of it. Prior is nil of
// a create, Plan and Config of a destroy.
type Call struct {
	Client *client.Client
	// Tenant is in which it is; "" above tenants.
	Tenant string
	// Name of the one, and Path to it.
	Name, Path string
	Prior      *tfsdk.State
	Plan       *tfsdk.Plan
	Config     *tfsdk.Config
}

// Do makes a call in the tenant of the one.
func (c Call) Do(ctx context.Context, method, where string, body any) (client.Answer, error) {
	return c.Client.Do(ctx, client.Request{Method: method, Path: where, Tenant: c.Tenant, Body: body})
}

// Get reads an attribute: as planned, or else as it is.
func (c Call) Get(ctx context.Context, at path.Path, into any) {
	switch {
	case c.Plan != nil:
		c.Plan.GetAttribute(ctx, at, into)
	case c.Prior != nil:
		c.Prior.GetAttribute(ctx, at, into)
	}
}

func (k Kind) id() string {
	if k.ID != "" {
		return k.ID
	}
	return "name"
}

func (k Kind) at(name string) string {
	if k.At != nil {
		return k.At(url.PathEscape(name))
	}
	return k.Collection + "/" + url.PathEscape(name)
}

// shape is that of resources: the contract's attributes, the own ones and `tenant`.
func (k Kind) shape() *shape.Shape {
	options := shape.Options{
		"name":       {Replace: true, Required: true, Instead: "Its name, for good."},
		"created_at": {Stable: true},
	}
	for name, option := range k.Options {
		options[name] = option
	}
	made := shape.OfResource(contract.Schema(k.Body), contract.Schema(k.Answer), options)
	for name, own := range k.own() {
		made.Members[name] = own
	}
	return made
}

func (k Kind) own() map[string]*shape.Shape {
	own := map[string]*shape.Shape{}
	for name, one := range k.Own {
		own[name] = one
	}
	if !k.AboveTenants {
		own[tenantAttribute] = tenantShape()
	}
	return own
}

const tenantAttribute = "tenant"

func tenantShape() *shape.Shape {
	made := shape.OfOwn(shape.Text, "The tenant it is in, for good. Left out: that of the provider, or of its "+
		"credential. An operator's client may name any.", nil)
	made.Chosen, made.Replace = true, true
	return made
}

// shapeOfData is that of data sources.
func (k Kind) shapeOfData() *shape.Shape {
	options := shape.Options{}
	for name, option := range k.Options {
		option.WriteOnly = false
		options[name] = option
	}
	made := shape.OfData(contract.Schema(k.Answer), options)
	for name, own := range k.own() {
		if own.Answered || name == tenantAttribute {
			made.Members[name] = own
		}
	}
	for name, one := range k.Observed {
		made.Members[name] = one
	}
	return made.Described(k.shape())
}
