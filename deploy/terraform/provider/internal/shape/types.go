package shape

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// AttrType is the type of values in Terraform's framework.
func (s *Shape) AttrType() attr.Type {
	switch s.Kind {
	case Bool:
		return types.BoolType
	case Integer:
		return types.Int64Type
	case Number:
		return types.NumberType
	case List:
		return types.ListType{ElemType: s.Element.AttrType()}
	case Set:
		return types.SetType{ElemType: s.Element.AttrType()}
	case Map:
		return types.MapType{ElemType: s.Element.AttrType()}
	case Object:
		members := map[string]attr.Type{}
		for name, member := range s.Members {
			members[name] = member.AttrType()
		}
		return types.ObjectType{AttrTypes: members}
	}
	return types.StringType
}

// Type is the type of values on the wire to Terraform.
func (s *Shape) Type() tftypes.Type {
	return s.AttrType().TerraformType(context.Background())
}

// defaultValue is Default as the framework has it. The contract says it, so it fits.
func (s *Shape) defaultValue() attr.Value {
	value, err := s.State(s.Default, tftypes.Value{})
	if err != nil {
		panic(fmt.Sprintf("a default that does not fit: %v", err))
	}
	made, err := s.AttrType().ValueFromTerraform(context.Background(), value)
	if err != nil {
		panic(fmt.Sprintf("a default that does not fit: %v", err))
	}
	return made
}
