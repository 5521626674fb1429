package resources

import (
	"context"
	"net/http"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/packetboat/terraform-provider-packetboat/internal/client"
	"github.com/packetboat/terraform-provider-packetboat/internal/shape"
)

// data is a data source of any kind: what one is that somebody else looks after.
type data struct {
	kind   Kind
	shape  *shape.Shape
	client *client.Client
}

var _ datasource.DataSourceWithConfigure = (*data)(nil)

// Data makes the data source of a kind, for each time that Terraform wants one.
func (k Kind) Data() func() datasource.DataSource {
	made := k.shapeOfData()
	return func() datasource.DataSource { return &data{kind: k, shape: made} }
}

func (d *data) Metadata(
	_ context.Context, request datasource.MetadataRequest, answer *datasource.MetadataResponse,
) {
	answer.TypeName = request.ProviderTypeName + "_" + d.kind.Name
}

func (d *data) Schema(_ context.Context, _ datasource.SchemaRequest, answer *datasource.SchemaResponse) {
	attributes := d.shape.DataAttributes()
	attributes[d.kind.id()] = schema.StringAttribute{Required: true, Description: "Which one."}
	if !d.kind.AboveTenants {
		attributes[tenantAttribute] = schema.StringAttribute{
			Optional: true, Computed: true,
			Description: "The tenant it is in; left out: that of the provider, or of its credential.",
		}
	}
	answer.Schema = schema.Schema{Description: d.kind.Text, Attributes: attributes}
}

func (d *data) Configure(
	_ context.Context, request datasource.ConfigureRequest, _ *datasource.ConfigureResponse,
) {
	d.client, _ = request.ProviderData.(*client.Client)
}

func (d *data) Read(
	ctx context.Context, request datasource.ReadRequest, answer *datasource.ReadResponse,
) {
	found, err := d.read(ctx, request.Config.Raw)
	if err != nil {
		answer.Diagnostics.Append(diagnosticsOf("The "+d.kind.Name+" cannot be read", err, d.shape)...)
		return
	}
	raw, err := d.shape.State(found, request.Config.Raw)
	if err != nil {
		answer.Diagnostics.AddError("The "+d.kind.Name+" cannot be read", err.Error())
		return
	}
	answer.State.Raw = raw
}

// read is the answer with all that the attributes need beside it.
func (d *data) read(ctx context.Context, config tftypes.Value) (map[string]any, error) {
	call := Call{Client: d.client, Name: textOf(config, d.kind.id())}
	call.Path = d.kind.at(call.Name)
	if !d.kind.AboveTenants {
		tenant, err := d.client.TenantOf(ctx, textOf(config, tenantAttribute))
		if err != nil {
			return nil, err
		}
		call.Tenant = tenant
	}
	found, err := call.Do(ctx, http.MethodGet, call.Path, nil)
	if err != nil {
		return nil, err
	}
	if d.kind.Received != nil {
		d.kind.Received(found.Body)
	}
	found.Body[d.kind.id()] = call.Name
	if !d.kind.AboveTenants {
		found.Body[tenantAttribute] = call.Tenant
	}
	if d.kind.Observe != nil {
		err = d.kind.Observe(ctx, call, found.Body)
	}
	return found.Body, err
}
