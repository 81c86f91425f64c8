package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/registry"
	"github.com/toolhaven/toolhaven/internal/registry/serverjson"
)

// officialMeta is the key under which a registry server says what it knows of a
// version; it stands beside the document, not in it.
const officialMeta = "io.modelcontextprotocol.registry/official"

// official is what stands there.
type official struct {
	Status          string    `json:"status"`
	StatusMessage   string    `json:"statusMessage"`
	PublishedAt     time.Time `json:"publishedAt"`
	StatusChangedAt time.Time `json:"statusChangedAt"`
}

// parsePage reads {servers: [{server, _meta}], metadata: {nextCursor, count}}.
func parsePage(body []byte) ([]Entry, string, error) {
	var page struct {
		Servers  json.RawMessage `json:"servers"`
		Metadata *struct {
			Next *string `json:"nextCursor"`
		} `json:"metadata"`
	}
	if err := decode(body, &page); err != nil {
		return nil, "", err
	}
	if page.Servers == nil {
		return nil, "", errors.New(`it has no "servers", so it is no answer of the registry API v0.1`)
	}
	var items []struct {
		Server json.RawMessage `json:"server"`
		Meta   struct {
			Official *official `json:"io.modelcontextprotocol.registry/official"`
		} `json:"_meta"`
	}
	if err := decode(page.Servers, &items); err != nil {
		return nil, "", err
	}
	entries := make([]Entry, 0, len(items))
	for i, item := range items {
		if len(item.Server) == 0 {
			return nil, "", fmt.Errorf(`item %d has no "server"`, i+1)
		}
		doc, err := serverjson.Parse(item.Server)
		if err != nil {
			return nil, "", fmt.Errorf("item %d: %w", i+1, err)
		}
		e := Entry{Document: doc, Status: registry.Active}
		if o := item.Meta.Official; o != nil {
			if err := e.describe(o); err != nil {
				return nil, "", fmt.Errorf("item %d (%.200q): %w", i+1, doc.Name, err)
			}
		}
		entries = append(entries, e)
	}
	next := ""
	if page.Metadata != nil && page.Metadata.Next != nil {
		next = *page.Metadata.Next
	}
	return entries, next, nil
}

// describe takes over what the registry says of a version.
func (e *Entry) describe(o *official) error {
	status, err := statusOf(o.Status)
	if err != nil {
		return fmt.Errorf("_meta: %s: %w", officialMeta, err)
	}
	e.Status, e.StatusMessage = status, bounded(o.StatusMessage, maxStatusMessage)
	e.PublishedAt, e.StatusChangedAt = o.PublishedAt, o.StatusChangedAt
	return nil
}

// maxStatusMessage is the official API's bound, in characters.
const maxStatusMessage = 500

func bounded(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most])
	}
	return text
}

// statusOf reads a status; none is active.
func statusOf(text string) (string, error) {
	switch s := strings.ToLower(text); s {
	case "":
		return registry.Active, nil
	case registry.Active, registry.Deprecated, registry.Deleted:
		return s, nil
	}
	return "", fmt.Errorf("the status %.50q is none of active, deprecated and deleted", text)
}

// decode reads JSON, which nothing may follow, and says what is wrong with it in
// the words of JSON.
func decode(body []byte, v any) error {
	err := json.Unmarshal(body, v)
	var typ *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case len(bytes.TrimSpace(body)) == 0:
		return errors.New("it is empty")
	case errors.As(err, &syntax):
		return errors.New("it is not JSON")
	case errors.As(err, &typ):
		return fmt.Errorf("%q is a %s, which it must not be", typ.Field, typ.Value)
	}
	return err
}
