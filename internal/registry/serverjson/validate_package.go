package serverjson

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

var sha256 = regexp.MustCompile(`^[a-f0-9]{64}$`)

func (c *checker) pkg(at string, v any) {
	o := c.object(at, v, "registryType", "registryBaseUrl", "identifier", "version", "fileSha256", "runtimeHint", "transport", "runtimeArguments", "packageArguments", "environmentVariables")
	if o == nil {
		return
	}
	kind := c.oneOf(at, o, "registryType", true, "npm", "pypi", "cargo", "oci", "nuget", "mcpb")
	identifier := c.text(at, o, "identifier", true, 1000)
	if strings.ContainsAny(identifier, " \t\r\n") {
		c.add(below(at, "identifier"), "it has a blank")
	}
	c.webURL(at, o, "registryBaseUrl", false, "https", "http")
	version := c.text(at, o, "version", false, maxVersion)
	if _, there := o["version"]; there && kind != "oci" {
		if problem := versionProblem(version); problem != "" {
			c.add(below(at, "version"), "%s", problem)
		}
	}
	digest := c.text(at, o, "fileSha256", false, 200)
	if digest != "" && !sha256.MatchString(digest) {
		c.add(below(at, "fileSha256"), "it must be 64 hexadecimal digits in lower case")
	}
	switch kind {
	case "oci":
		if _, there := o["version"]; there {
			c.add(below(at, "version"), "an image's version is the tag or digest of its identifier")
		}
	case "mcpb":
		if digest == "" {
			c.add(below(at, "fileSha256"), "it is required for a bundle")
		}
		if u, err := url.Parse(identifier); identifier != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
			c.add(below(at, "identifier"), "a bundle's identifier is the https URL of its file")
		}
	case "npm", "pypi", "cargo", "nuget":
		if strings.Contains(identifier, "://") || strings.HasPrefix(identifier, "-") {
			c.add(below(at, "identifier"), "it must be a package's name")
		}
		if version == "" {
			c.add(below(at, "version"), "it is required")
		}
	}
	c.text(at, o, "runtimeHint", false, 100)
	if t, there := o["transport"]; !there {
		c.add(below(at, "transport"), "it is required")
	} else {
		c.transport(below(at, "transport"), t, false)
	}
	c.each(at, o, "runtimeArguments", c.argument)
	c.each(at, o, "packageArguments", c.argument)
	c.each(at, o, "environmentVariables", c.keyValue)
}

// transport checks how a package's server speaks, or where a remote is.
func (c *checker) transport(at string, v any, remote bool) {
	known := []string{"type", "url", "headers"}
	if remote {
		known = append(known, "variables")
	}
	o := c.object(at, v, known...)
	if o == nil {
		return
	}
	kinds := []string{"streamable-http", "sse"}
	if !remote {
		kinds = append(kinds, "stdio")
	}
	kind := c.oneOf(at, o, "type", true, kinds...)
	c.each(at, o, "headers", c.keyValue)
	variables := map[string]any{}
	if v, there := o["variables"]; there {
		if variables, _ = v.(map[string]any); variables == nil {
			c.add(below(at, "variables"), "it must be an object")
		}
		for name, input := range variables {
			c.input(below(below(at, "variables"), name), input)
		}
	}
	if kind == "stdio" || kind == "" {
		if _, there := o["url"]; there && kind == "stdio" {
			c.add(below(at, "url"), "a server that speaks over stdio has none")
		}
		return
	}
	target := c.text(at, o, "url", true, 2048)
	if target == "" {
		return
	}
	if problem := templateProblem(target); problem != "" {
		c.add(below(at, "url"), "%s", problem)
	}
	if !remote {
		return // its variables are the package's arguments and environment
	}
	for _, name := range placeholders(target) {
		if _, declared := variables[name]; !declared {
			c.add(below(at, "url"), "{%s} is not among the variables", name)
		}
	}
}

var placeholder = regexp.MustCompile(`\{([^{}]*)\}`)

func placeholders(s string) []string {
	var names []string
	for _, m := range placeholder.FindAllStringSubmatch(s, -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}

// templateProblem: an http or https URL, in which {variables} may stand, also for
// all of its beginning.
func templateProblem(target string) string {
	if strings.ContainsAny(target, " \t\r\n") {
		return "it has a blank"
	}
	filled := placeholder.ReplaceAllString(target, "x")
	if strings.HasPrefix(target, "{") {
		return ""
	}
	// A variable may be the port.
	filled = regexp.MustCompile(`^(https?://[^/?#]*):x`).ReplaceAllString(filled, "$1:1")
	u, err := url.Parse(filled)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return "it must be an absolute URL (https or http)"
	case u.User != nil:
		return "it must not hold a user or a password"
	}
	return ""
}

var inputMembers = []string{"description", "isRequired", "format", "value", "isSecret", "default", "placeholder", "choices", "variables"}

func (c *checker) input(at string, v any, more ...string) map[string]any {
	o := c.object(at, v, append(more, inputMembers...)...)
	if o == nil {
		return nil
	}
	c.text(at, o, "description", false, 4000)
	c.oneOf(at, o, "format", false, "string", "number", "boolean", "filepath")
	value := c.text(at, o, "value", false, 4000)
	fallback := c.text(at, o, "default", false, 4000)
	c.text(at, o, "placeholder", false, 4000)
	c.flag(at, o, "isRequired")
	if c.flag(at, o, "isSecret") {
		// What is published is no secret any more.
		if value != "" && len(placeholders(value)) == 0 {
			c.add(below(at, "value"), "a secret must not stand in the document")
		}
		if fallback != "" {
			c.add(below(at, "default"), "a secret must not stand in the document")
		}
	}
	var choices []string
	c.each(at, o, "choices", func(at string, v any) {
		s, ok := v.(string)
		if !ok {
			c.add(at, "it must be a text")
		}
		choices = append(choices, s)
	})
	if fallback != "" && len(choices) > 0 && !slices.Contains(choices, fallback) {
		c.add(below(at, "default"), "it is none of the choices")
	}
	variables := map[string]any{}
	if v, there := o["variables"]; there {
		if variables, _ = v.(map[string]any); variables == nil {
			c.add(below(at, "variables"), "it must be an object")
		}
		for name, input := range variables {
			c.input(below(below(at, "variables"), name), input)
		}
	}
	if len(variables) > 0 {
		for _, name := range placeholders(value) {
			if _, declared := variables[name]; !declared {
				c.add(below(at, "value"), "{%s} is not among the variables", name)
			}
		}
	}
	return o
}

var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	headerName   = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$") // RFC 9110 section 5.6.2
)

// keyValue is an environment variable or a header.
func (c *checker) keyValue(at string, v any) {
	o := c.input(at, v, "name")
	if o == nil {
		return
	}
	name := c.text(at, o, "name", true, 200)
	pattern := variableName
	if strings.Contains(at, "/headers/") {
		pattern = headerName
	}
	if name != "" && !pattern.MatchString(name) {
		c.add(below(at, "name"), "it has a character that a name cannot hold")
	}
}

func (c *checker) argument(at string, v any) {
	o := c.input(at, v, "type", "name", "valueHint", "isRepeated")
	if o == nil {
		return
	}
	c.flag(at, o, "isRepeated")
	name := c.text(at, o, "name", false, 200)
	hint := c.text(at, o, "valueHint", false, 200)
	switch c.oneOf(at, o, "type", true, "positional", "named") {
	case "named":
		if name == "" {
			c.add(below(at, "name"), "it is required for a named argument, with its dashes")
		}
	case "positional":
		if value, _ := o["value"].(string); value == "" && hint == "" {
			c.add(at, "a positional argument needs a value or a valueHint")
		}
		if name != "" {
			c.add(below(at, "name"), "a positional argument has none")
		}
	}
}
