package shape

import (
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
)

// Described takes over the texts that another shape of the same has and this lacks: the contract
// mostly says at bodies what something is.
func (s *Shape) Described(other *Shape) *Shape {
	if other == nil {
		return s
	}
	if s.Text == "" {
		s.Text = other.Text
	}
	for name, member := range s.Members {
		member.Described(other.Members[name])
	}
	if s.Element != nil {
		s.Element.Described(other.Element)
	}
	return s
}

// DataAttributes are those of a data source: all is read.
func (s *Shape) DataAttributes() map[string]schema.Attribute {
	attributes := map[string]schema.Attribute{}
	for name, member := range s.Members {
		attributes[name] = member.dataAttribute()
	}
	return attributes
}

func (s *Shape) dataAttribute() schema.Attribute {
	text, hidden := s.Text, s.Sensitive
	switch s.Kind {
	case Bool:
		return schema.BoolAttribute{Computed: true, Description: text, Sensitive: hidden}
	case Integer:
		return schema.Int64Attribute{Computed: true, Description: text, Sensitive: hidden}
	case Number:
		return schema.NumberAttribute{Computed: true, Description: text, Sensitive: hidden}
	case Object:
		return schema.SingleNestedAttribute{
			Computed: true, Description: text, Sensitive: hidden, Attributes: s.DataAttributes(),
		}
	case Map:
		return schema.MapAttribute{
			Computed: true, Description: text, Sensitive: hidden, ElementType: s.Element.AttrType(),
		}
	case Set:
		return schema.SetAttribute{
			Computed: true, Description: text, Sensitive: hidden, ElementType: s.Element.AttrType(),
		}
	case List:
		if s.Element.Kind == Object {
			return schema.ListNestedAttribute{
				Computed: true, Description: text, Sensitive: hidden,
				NestedObject: schema.NestedAttributeObject{Attributes: s.Element.DataAttributes()},
			}
		}
		return schema.ListAttribute{
			Computed: true, Description: text, Sensitive: hidden, ElementType: s.Element.AttrType(),
		}
	}
	return schema.StringAttribute{Computed: true, Description: text, Sensitive: hidden}
}
