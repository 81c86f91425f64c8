package httpd

import (
	"encoding/json"
	"fmt"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// maxDeclarations bounds each declaration of a client, in bytes.
const maxDeclarations = 64 << 10

// CheckDeclaration refuses a declaration of a client (capabilities, clientInfo) that is not
// an object of bounded size; nil is none. The error is an *mcp.Error that calls it name.
func CheckDeclaration(raw json.RawMessage, name string) error {
	switch {
	case raw == nil:
		return nil
	case raw[0] != '{':
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: name + " must be an object"}
	case len(raw) > maxDeclarations:
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: fmt.Sprintf("%s is larger than %d bytes", name, maxDeclarations)}
	}
	return nil
}
