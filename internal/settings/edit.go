package settings

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"
)

// edit returns a configuration file's content with one setting changed, or taken
// out when value is "". Comments and the order of settings stay.
func edit(content []byte, k Key, value string) ([]byte, error) {
	want, doc, err := parseConfig(content)
	if err != nil {
		return nil, err
	}
	if *k.field(&want) == value {
		return content, nil // the value is set already
	}
	*k.field(&want) = value
	if doc == nil {
		// A file of comments, which a YAML document of nothing cannot hold.
		content, err = appendSetting(content, k.Name, value)
	} else {
		content, err = editDocument(doc, k.Name, value)
	}
	if err != nil {
		return nil, err
	}
	// Anchors and aliases of YAML are not edited here.
	if got, _, err := parseConfig(content); err != nil || got != want {
		return nil, errors.New("it is written in a way that only a person can change; edit the file instead")
	}
	return content, nil
}

func appendSetting(content []byte, name, value string) ([]byte, error) {
	line, err := yaml.Marshal(map[string]string{name: value})
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	if len(content) > 0 && !bytes.HasSuffix(content, []byte("\n")) {
		content = append(content, '\n')
	}
	return append(content, line...), nil
}

func editDocument(doc *yaml.Node, name, value string) ([]byte, error) {
	root := doc.Content[0]
	at := -1
	for i := 0; i < len(root.Content); i += 2 {
		if root.Content[i].Value == name {
			at = i
		}
	}
	switch {
	case value == "" && at >= 0:
		root.Content = slices.Delete(root.Content, at, at+2)
	case value == "":
	case at < 0:
		root.Content = append(root.Content, text(name), text(value))
	default:
		old := root.Content[at+1]
		now := text(value)
		now.Style = old.Style & (yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle)
		now.HeadComment, now.LineComment, now.FootComment = old.HeadComment, old.LineComment, old.FootComment
		root.Content[at+1] = now
	}
	if len(root.Content) > 0 {
		root.Style &^= yaml.FlowStyle // one setting a line
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(doc); err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	return out.Bytes(), nil
}

func text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }
