package provider_test

import (
	"context"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/packetboat/terraform-provider-packetboat/internal/provider"
)

func schemas(t *testing.T) *tfprotov6.GetProviderSchemaResponse {
	t.Helper()
	server := providerserver.NewProtocol6(provider.New("test")())()
	found, err := server.GetProviderSchema(context.Background(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range found.Diagnostics {
		t.Error(one.Summary, one.Detail)
	}
	return found
}

// attributes visits all of them, by path.
func attributes(at string, found []*tfprotov6.SchemaAttribute, visit func(string, *tfprotov6.SchemaAttribute)) {
	for _, one := range found {
		visit(at+"."+one.Name, one)
		if one.NestedType != nil {
			attributes(at+"."+one.Name, one.NestedType.Attributes, visit)
		}
	}
}

func TestEveryAttributeSaysWhatItIs(t *testing.T) {
	found := schemas(t)
	says := func(at string, one *tfprotov6.SchemaAttribute) {
		if one.Description == "" {
			t.Errorf("%s has no description", at)
		}
	}
	for name, one := range found.ResourceSchemas {
		attributes(name, one.Block.Attributes, says)
	}
	for name, one := range found.DataSourceSchemas {
		attributes("data."+name, one.Block.Attributes, says)
	}
	attributes("provider", found.Provider.Block.Attributes, says)
}

func TestWhatIsNamedASecretIsSensitive(t *testing.T) {
	secret := func(at string, one *tfprotov6.SchemaAttribute) {
		_, name, _ := strings.Cut(at, ".")
		if (strings.HasSuffix(name, "_secret") || name == "key" || name == "token") && !one.Sensitive {
			t.Errorf("%s is shown", at)
		}
	}
	for name, one := range schemas(t).ResourceSchemas {
		attributes(name, one.Block.Attributes, secret)
	}
}

func TestWhatTenantsHaveIsInOne(t *testing.T) {
	for name, one := range schemas(t).ResourceSchemas {
		if name == "packetboat_tenant" {
			continue
		}
		found := false
		attributes("", one.Block.Attributes, func(at string, _ *tfprotov6.SchemaAttribute) {
			found = found || at == ".tenant"
		})
		if !found {
			t.Errorf("%s has no tenant", name)
		}
	}
}
