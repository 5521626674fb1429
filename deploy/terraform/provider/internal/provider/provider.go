// Package provider is what Terraform talks to first: which server, who asks, what kinds there are.
package provider

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/packetboat/terraform-provider-packetboat/internal/client"
	"github.com/packetboat/terraform-provider-packetboat/internal/resources"
)

const (
	defaultURL            = "http://127.0.0.1:8080"
	defaultMaxRetries     = 8
	defaultTimeoutSeconds = 60
)

type packetboat struct{ version string }

// New is what the plugin's server wants.
func New(version string) func() provider.Provider {
	return func() provider.Provider { return &packetboat{version: version} }
}

type configuration struct {
	URL            types.String `tfsdk:"url"`
	Token          types.String `tfsdk:"token"`
	ClientID       types.String `tfsdk:"client_id"`
	ClientSecret   types.String `tfsdk:"client_secret"`
	Tenant         types.String `tfsdk:"tenant"`
	CAFile         types.String `tfsdk:"ca_file"`
	MaxRetries     types.Int64  `tfsdk:"max_retries"`
	TimeoutSeconds types.Int64  `tfsdk:"timeout_seconds"`
}

func (p *packetboat) Metadata(
	_ context.Context, _ provider.MetadataRequest, answer *provider.MetadataResponse,
) {
	answer.TypeName, answer.Version = "packetboat", p.version
}

func (p *packetboat) Schema(_ context.Context, _ provider.SchemaRequest, answer *provider.SchemaResponse) {
	text := func(description string, sensitive bool) schema.StringAttribute {
		return schema.StringAttribute{Optional: true, Sensitive: sensitive, Description: description}
	}
	answer.Schema = schema.Schema{
		Description: "Tenants of a Packetboat installation, and what is theirs.",
		Attributes: map[string]schema.Attribute{
			"url": text("The server, or several, separated by commas; else PACKETBOAT_URL, else "+
				defaultURL+".", false),
			"token": text("A bearer token, of one tenant or an operator's; else PACKETBOAT_TOKEN.", true),
			"client_id": text("The id of a client or an operator, which may work in every tenant; else "+
				"PACKETBOAT_CLIENT_ID.", false),
			"client_secret": text("Its secret; else PACKETBOAT_CLIENT_SECRET.", true),
			"tenant":        text("The tenant of resources that name none; else that of the credential.", false),
			"ca_file":       text("Certificates (PEM) to trust instead of the system's.", false),
			"max_retries": schema.Int64Attribute{
				Optional: true, Description: "How often a call is tried again if that is safe; 8.",
			},
			"timeout_seconds": schema.Int64Attribute{
				Optional: true, Description: "How long one try may take; 60.",
			},
		},
	}
}

// Configure leaves everything without a client while the configuration is not known yet: plans are
// then made without asking a server.
func (p *packetboat) Configure(
	ctx context.Context, request provider.ConfigureRequest, answer *provider.ConfigureResponse,
) {
	if !request.Config.Raw.IsFullyKnown() {
		return
	}
	var given configuration
	answer.Diagnostics.Append(request.Config.Get(ctx, &given)...)
	if answer.Diagnostics.HasError() {
		return
	}
	options := client.Options{
		URLs:       urls(first(given.URL, "PACKETBOAT_URL", defaultURL)),
		Tenant:     given.Tenant.ValueString(),
		CAFile:     given.CAFile.ValueString(),
		MaxRetries: int(number(given.MaxRetries, defaultMaxRetries)),
		Timeout:    time.Duration(number(given.TimeoutSeconds, defaultTimeoutSeconds)) * time.Second,
		UserAgent:  "terraform-provider-packetboat/" + p.version + " terraform/" + request.TerraformVersion,
	}
	credentials(given, &options)
	answer.Diagnostics.Append(checked(options)...)
	if answer.Diagnostics.HasError() {
		return
	}
	made, err := client.New(options)
	if err != nil {
		answer.Diagnostics.AddAttributeError(path.Root("ca_file"), "Unreadable certificates", err.Error())
		return
	}
	answer.ResourceData, answer.DataSourceData = made, made
}

// credentials: what the configuration says comes before all of the environment, so that a token of
// the shell does not get in the way of a client that is configured, or the other way round.
func credentials(given configuration, options *client.Options) {
	options.Token = given.Token.ValueString()
	options.ClientID = given.ClientID.ValueString()
	options.ClientSecret = given.ClientSecret.ValueString()
	if options.Token != "" {
		return
	}
	if options.ClientID == "" && options.ClientSecret == "" {
		options.Token = os.Getenv("PACKETBOAT_TOKEN")
	}
	if options.Token != "" {
		return
	}
	options.ClientID = first(given.ClientID, "PACKETBOAT_CLIENT_ID", "")
	options.ClientSecret = first(given.ClientSecret, "PACKETBOAT_CLIENT_SECRET", "")
}

func checked(options client.Options) diag.Diagnostics {
	var found diag.Diagnostics
	switch {
	case options.Token != "" && options.ClientID+options.ClientSecret != "":
		found.AddAttributeError(path.Root("token"), "Two credentials",
			"Give a token, or client_id and client_secret, not both.")
	case options.Token == "" && (options.ClientID == "" || options.ClientSecret == ""):
		found.AddError("No credential",
			"Give the provider client_id and client_secret, or a token, or set PACKETBOAT_CLIENT_ID and "+
				"PACKETBOAT_CLIENT_SECRET, or PACKETBOAT_TOKEN.")
	}
	for _, one := range options.URLs {
		if parsed, err := url.Parse(one); err != nil || parsed.Host == "" || !strings.HasPrefix(parsed.Scheme, "http") {
			found.AddAttributeError(path.Root("url"), "No server", fmt.Sprintf("%q is no URL of a server.", one))
		}
	}
	if options.MaxRetries < 0 || options.Timeout <= 0 {
		found.AddError("Out of range", "max_retries is at least 0, timeout_seconds at least 1.")
	}
	return found
}

func first(given types.String, variable, fallback string) string {
	if text := given.ValueString(); text != "" {
		return text
	}
	if text := os.Getenv(variable); text != "" {
		return text
	}
	return fallback
}

func number(given types.Int64, fallback int64) int64 {
	if given.IsNull() {
		return fallback
	}
	return given.ValueInt64()
}

func urls(text string) []string {
	found := strings.Split(text, ",")
	for i, one := range found {
		found[i] = strings.TrimSpace(one)
	}
	return found
}

func (p *packetboat) Resources(context.Context) []func() resource.Resource {
	var made []func() resource.Resource
	for _, kind := range resources.All() {
		made = append(made, kind.Resource())
	}
	return made
}

func (p *packetboat) DataSources(context.Context) []func() datasource.DataSource {
	var made []func() datasource.DataSource
	for _, kind := range resources.All() {
		made = append(made, kind.Data())
	}
	return made
}
