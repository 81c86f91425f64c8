package source

import (
	"encoding/json"

	"github.com/toolhaven/toolhaven/internal/runflag"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// useProvenance takes over who signs the image. What is not understood might be a
// restriction, so such provenance verifies nothing: it is kept as empty, which no signature
// satisfies.
func (r *Resolution) useProvenance(raw json.RawMessage) {
	if len(raw) == 0 {
		return
	}
	var p workload.Provenance
	if err := runflag.DecodeStrict(raw, &p); err != nil {
		r.notice("the provenance of the registry's entry cannot be used: %v", err)
		p = workload.Provenance{}
	}
	r.Spec.Container.Provenance = &p
}
