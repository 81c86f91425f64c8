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

// officialMeta is the key of the registry's data about a version, which is not part of
// the document.
const officialMeta = "io.modelcontextprotocol.registry/official"

// official is that data.
type official struct {
	Status          string    `json:"status"`
	StatusMessage   string    `json:"statusMessage"`
	PublishedAt     time.Time `json:"publishedAt"`
	StatusChangedAt time.Time `json:"statusChangedAt"`
}

// parsePage reads {servers: [{server, _meta}], metadata: {nextCursor, count}}. An
// item that cannot be used is left out. next is the cursor of the page after; "" at
// the end.
func parsePage(body []byte) (entries []Entry, leftOut registry.LeftOut, next string, err error) {
	var page struct {
		Servers  json.RawMessage `json:"servers"`
		Metadata struct {
			Next string `json:"nextCursor"`
		} `json:"metadata"`
	}
	if err := decode(body, &page); err != nil {
		return nil, leftOut, "", err
	}
	if page.Servers == nil {
		return nil, leftOut, "", errors.New(`it has no "servers", so it is not a response of the registry API v0.1`)
	}
	var items []json.RawMessage // null is an empty list: Go encodes nil slices so
	if err := decode(page.Servers, &items); err != nil {
		return nil, leftOut, "", err
	}
	for i, raw := range items {
		e, err := parseItem(raw)
		if err != nil {
			leftOut.Add(fmt.Errorf("item %d: %w", i+1, err))
			continue
		}
		entries = append(entries, e)
	}
	return entries, leftOut, page.Metadata.Next, nil
}

// parseItem reads {server, _meta}.
func parseItem(raw json.RawMessage) (Entry, error) {
	var item struct {
		Server json.RawMessage `json:"server"`
		Meta   struct {
			Official *official `json:"io.modelcontextprotocol.registry/official"`
		} `json:"_meta"`
	}
	if err := decode(raw, &item); err != nil {
		return Entry{}, err
	}
	if len(item.Server) == 0 {
		return Entry{}, errors.New(`it has no "server"`)
	}
	doc, err := serverjson.Parse(item.Server)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{Document: doc, Status: registry.Active}
	if item.Meta.Official != nil {
		if err := e.describe(item.Meta.Official); err != nil {
			return Entry{}, fmt.Errorf("%.200q: %w", doc.Name, err)
		}
	}
	return e, nil
}

// describe applies the registry's own data about a version.
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

// decode reads one JSON value. Its errors use the terms of JSON, not of Go.
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
