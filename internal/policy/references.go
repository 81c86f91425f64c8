package policy

import (
	"fmt"
	"slices"

	"github.com/toolhaven/toolhaven/internal/settings"
)

// references collects references to what does not exist in the JSON form of a policy.
type references struct {
	known  []string // entity types
	faults []string
}

func (r *references) visit(tree any) {
	switch v := tree.(type) {
	case []any:
		for _, element := range v {
			r.visit(element)
		}
	case map[string]any:
		typ, hasType := v["type"].(string)
		id, hasID := v["id"].(string)
		if hasType && hasID && len(v) == 2 {
			r.entity(typ, id)
			return
		}
		if is, ok := v["entity_type"].(string); ok {
			r.entityType(is)
		}
		for _, key := range keysOf(v) {
			r.visit(v[key])
		}
	}
}

func keysOf(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (r *references) entity(typ, id string) {
	r.entityType(typ)
	if typ == "Action" && !slices.Contains(actions, id) {
		r.faults = append(r.faults, fmt.Sprintf("there is no Action::%q%s", id, settings.Suggest(id, actions)))
	}
}

func (r *references) entityType(typ string) {
	if !slices.Contains(r.known, typ) {
		r.faults = append(r.faults, fmt.Sprintf("there is no entity type %s%s", typ, settings.Suggest(typ, r.known)))
	}
}
