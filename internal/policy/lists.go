package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// listed are the list requests: the member of the result, the member that identifies an
// item, and the action that decides on it.
var listed = map[string]struct{ list, name, action string }{
	mcp.MethodToolsList:             {"tools", "name", CallTool},
	mcp.MethodPromptsList:           {"prompts", "name", GetPrompt},
	mcp.MethodResourcesList:         {"resources", "uri", ReadResource},
	mcp.MethodResourceTemplatesList: {"resourceTemplates", "uriTemplate", ReadResource},
}

// listing is the result of a list request with what decisions on its items need. It is
// immutable.
type listing struct {
	list       *mcp.List
	size       int            // in bytes, about
	attributes []types.Record // of the resource for each item
	hints      []*Hints       // of each tool; nil when no policy uses them
}

// lists holds the results that were read last: a server sends the same list to many requests.
type lists struct {
	seed maphash.Seed

	mu     sync.Mutex
	byText map[listKey]*listing
	size   int
}

type listKey struct {
	method string
	digest uint64 // of the result
}

const (
	// maxLists bounds the results that are kept, in bytes.
	maxLists = 4 << 20
	// itemSize is what an item needs in addition to its text, in bytes.
	itemSize = 512
)

// read reads the result of a list request.
func (p *Policy) read(method string, result json.RawMessage) (*listing, error) {
	key := listKey{method, maphash.Bytes(p.lists.seed, result)}
	l := p.lists.get(key, result)
	if l == nil {
		var err error
		if l, err = p.parseList(method, bytes.Clone(result)); err != nil {
			return nil, &mcp.Error{Code: mcp.CodeServerGone, Message: fmt.Sprintf("the server's list cannot be read: %v", err)}
		}
		p.lists.put(key, l)
	}
	if l.hints != nil {
		p.tools.note(l)
	}
	return l, nil
}

func (l *lists) get(key listKey, result json.RawMessage) *listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.byText[key]; known != nil && known.list.IsOf(result) {
		return known
	}
	return nil
}

func (l *lists) put(key listKey, added *listing) {
	if added.size > maxLists {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byText == nil || l.size+added.size > maxLists {
		l.byText, l.size = map[listKey]*listing{}, 0
	}
	if l.byText[key] == nil {
		l.size += added.size
	}
	l.byText[key] = added
}

func (p *Policy) parseList(method string, result json.RawMessage) (*listing, error) {
	of := listed[method]
	list, err := mcp.ReadList(result, of.list, of.name)
	if err != nil {
		return nil, err
	}
	l := &listing{list: list, size: len(result) + itemSize*len(list.Items), attributes: make([]types.Record, len(list.Items))}
	if p.usesHints && of.action == CallTool {
		l.hints = make([]*Hints, len(list.Items))
	}
	for i, item := range list.Items {
		r := Request{Action: of.action, Name: item.Name}
		if l.hints != nil {
			l.hints[i] = ReadHints(item.Raw)
			r.Hints = l.hints[i]
		}
		l.attributes[i] = p.attributes(r, nil)
	}
	return l, nil
}
