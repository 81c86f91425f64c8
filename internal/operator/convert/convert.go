// Package convert turns manifests of ToolHive's operator into ours. Kinds and fields have the
// same names, so most of it is the group; what has no counterpart is left out and reported.
package convert

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/toolhaven/toolhaven/api/v1beta1"
	"github.com/toolhaven/toolhaven/deploy/crds"
	"github.com/toolhaven/toolhaven/internal/operator/render"
)

// theirs is the group of ToolHive's kinds.
const theirs = "toolhive.stacklok.dev"

// Note is something that a person has to know of a resource.
type Note struct {
	Resource string // such as MCPServer fetch
	Message  string
}

func (n Note) String() string { return n.Resource + ": " + n.Message }

// Check is an error for a resource that the API server would refuse. Its text has a line for
// each fault.
type Check func(client.Object) error

// converter converts one file.
type converter struct {
	schemas map[string]*apiextensionsv1.JSONSchemaProps // by kind
	check   Check
	notes   []Note
	name    string // of the resource at hand
	refused bool   // a note reports that the API server will refuse it
}

func (c *converter) note(format string, args ...any) {
	c.notes = append(c.notes, Note{c.name, fmt.Sprintf(format, args...)})
}

// Convert reads YAML or JSON, of one or more documents, and writes YAML. A resource of
// another group is written as it is. Comments are not kept in what is converted. The error is
// one of reading: what cannot be converted is a note, and so is what check finds.
func Convert(in io.Reader, out io.Writer, check Check) ([]Note, error) {
	schemas, err := readSchemas()
	if err != nil {
		return nil, err
	}
	c := &converter{schemas: schemas, check: check}
	reader := yamlutil.NewYAMLReader(bufio.NewReader(in))
	for i := 1; ; i++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return c.notes, nil
		}
		if err != nil {
			return nil, err
		}
		written, err := c.document(document)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		for _, w := range written {
			if _, err := fmt.Fprintf(out, "---\n%s", w); err != nil {
				return nil, err
			}
		}
	}
}

// readSchemas returns those of our kinds.
var readSchemas = sync.OnceValues(func() (map[string]*apiextensionsv1.JSONSchemaProps, error) {
	files, err := crds.Files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	schemas := map[string]*apiextensionsv1.JSONSchemaProps{}
	for _, file := range files {
		content, err := crds.Files.ReadFile(file.Name())
		if err != nil {
			return nil, err
		}
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(content, &definition); err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name(), err)
		}
		schemas[definition.Spec.Names.Kind] = definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	}
	return schemas, nil
})

// document converts one. A list is more than one.
func (c *converter) document(document []byte) ([][]byte, error) {
	var content any
	if err := yaml.UnmarshalStrict(document, &content); err != nil {
		return nil, err
	}
	if content == nil {
		return nil, nil
	}
	resource, ok := content.(map[string]any)
	if !ok {
		return nil, errors.New("it is not a resource")
	}
	if resource["kind"] == "List" && resource["apiVersion"] == "v1" {
		items, ok := resource["items"].([]any)
		if !ok {
			return nil, errors.New("it is a list without items")
		}
		var all [][]byte
		for _, item := range items {
			one, ok := item.(map[string]any)
			if !ok {
				return nil, errors.New("an item of the list is not a resource")
			}
			written, err := c.resource(one, nil)
			if err != nil {
				return nil, err
			}
			all = append(all, written...)
		}
		return all, nil
	}
	return c.resource(resource, document)
}

// resource converts one. document is its text, if it has one of its own.
func (c *converter) resource(resource map[string]any, document []byte) ([][]byte, error) {
	kind, _ := resource["kind"].(string)
	metadata, _ := resource["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	c.name, c.refused = strings.TrimSpace(kind+" "+name), false
	apiVersion, _ := resource["apiVersion"].(string)
	group, version, _ := strings.Cut(apiVersion, "/")
	if group != theirs {
		if document != nil {
			return [][]byte{append(bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(document), []byte("---"))), '\n')}, nil
		}
		return marshal(resource)
	}
	schema := c.schemas[kind]
	if schema == nil {
		c.note("left out: there is no such kind here")
		return nil, nil
	}
	if version != "v1alpha1" && version != "v1beta1" {
		c.note("version %s is not known; it is read as v1beta1", version)
	}
	resource["apiVersion"] = v1beta1.GroupVersion.String()
	delete(resource, "status")
	cleanMetadata(metadata)
	if spec, ok := resource["spec"].(map[string]any); ok {
		c.rename(kind, spec)
		if s, ok := schema.Properties["spec"]; ok {
			c.prune("spec", spec, &s)
		}
	}
	written, err := marshal(resource)
	if err == nil && !c.refused {
		err = c.validate(kind, written[0])
	}
	return written, err
}

// validate reports what the API server will refuse.
func (c *converter) validate(kind string, manifest []byte) error {
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		return err
	}
	object, err := scheme.New(v1beta1.GroupVersion.WithKind(kind))
	if err != nil {
		return err
	}
	fault := yaml.Unmarshal(manifest, object)
	if o, ok := object.(client.Object); ok && fault == nil {
		fault = c.check(o)
	}
	if fault != nil {
		for line := range strings.Lines(fault.Error()) {
			c.note("the API server will refuse it: %s", strings.TrimSpace(line))
		}
	}
	return nil
}

func marshal(resource map[string]any) ([][]byte, error) {
	content, err := yaml.Marshal(resource)
	return [][]byte{content}, err
}

// cleanMetadata removes what a cluster adds.
func cleanMetadata(metadata map[string]any) {
	for _, key := range []string{"creationTimestamp", "deletionTimestamp", "finalizers", "generation", "managedFields", "ownerReferences", "resourceVersion", "selfLink", "uid"} {
		delete(metadata, key)
	}
	for _, key := range []string{"annotations", "labels"} {
		values, _ := metadata[key].(map[string]any)
		for name := range values {
			if strings.HasPrefix(name, "kubectl.kubernetes.io/") || strings.Contains(name, theirs+"/") {
				delete(values, name)
			}
		}
		if len(values) == 0 {
			delete(metadata, key)
		}
	}
}

// containers are the names of containers in a pod, theirs and ours, where they differ.
var containers = map[string]string{"toolhive": render.GatewayContainer}

// rename changes what has another name here.
func (c *converter) rename(kind string, spec map[string]any) {
	if kind != v1beta1.KindMCPServer && kind != v1beta1.KindMCPRemoteProxy {
		return
	}
	for old, name := range map[string]string{"port": "proxyPort", "targetPort": "mcpPort"} { // of v1alpha1
		value, ok := spec[old]
		if !ok {
			continue
		}
		delete(spec, old)
		if _, ok := spec[name]; !ok {
			spec[name] = value
		}
	}
	if transport, ok := spec["transport"]; kind == v1beta1.KindMCPServer && (!ok || transport == "stdio") {
		if _, ok := spec["mcpPort"]; ok {
			c.note("left out: spec.mcpPort has no effect on a stdio server")
			delete(spec, "mcpPort")
		}
	}
	template, _ := spec["podTemplateSpec"].(map[string]any)
	pod, _ := template["spec"].(map[string]any)
	list, _ := pod["containers"].([]any)
	for _, item := range list {
		container, ok := item.(map[string]any)
		if !ok {
			continue
		}
		if old, ok := container["name"].(string); ok && containers[old] != "" {
			container["name"] = containers[old]
			c.note("spec.podTemplateSpec: container %s is named %s here", old, containers[old])
		}
	}
}

// advice is what to do about a field that is left out, by its path without positions.
var advice = map[string]string{
	"spec.sessionStorage":        "sessions need no storage here: a gateway passes a request on to the replica that has its session",
	"spec.backendReplicas":       "gateway and server share a pod here; use spec.replicas",
	"spec.rateLimiting":          "limits of rates are not available: REQUESTS ARE NOT LIMITED",
	"spec.openTelemetry.headers": "put the values into a Secret, and its keys into spec.openTelemetry.sensitiveHeaders",
	"spec.oidcConfig":            "make it an MCPOIDCConfig and refer to it in spec.oidcConfigRef: WITHOUT IT EVERY CLIENT IS ACCEPTED",
	"spec.telemetry":             "make it an MCPTelemetryConfig and refer to it in spec.telemetryConfigRef",
	"spec.tools":                 "make it an MCPToolConfig and refer to it in spec.toolConfigRef: WITHOUT IT CLIENTS SEE ALL TOOLS",
	"spec.authzConfig.inline.primaryUpstreamProvider": "policies use the claims of the token here",
	"spec.embeddedAuthServer.insecureAllowHTTP":       "plain HTTP is for loopback only",
	"spec.kubernetesServiceAccount.serviceAccount":    "tokens of ALL SERVICE ACCOUNTS with the audience are accepted; give policies with principal.claim_sub",
	"spec.kubernetesServiceAccount.namespace":         "tokens of all namespaces are accepted",
}

// elsewhere are fields of other paths with the same content.
var elsewhere = strings.NewReplacer("spec.authServerConfig.", "spec.embeddedAuthServer.", "spec.incomingAuth.authzConfig.", "spec.authzConfig.")

// prune removes what the schema does not have, and reports what the API server will refuse.
func (c *converter) prune(path string, value any, schema *apiextensionsv1.JSONSchemaProps) {
	if schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			at := path + "." + key
			if property, ok := schema.Properties[key]; ok {
				c.prune(at, v[key], &property)
			} else if a := schema.AdditionalProperties; a != nil && a.Schema != nil {
				c.prune(at, v[key], a.Schema)
			} else {
				if !isEmpty(v[key]) {
					c.leftOut(at)
				}
				delete(v, key)
			}
		}
	case []any:
		if schema.Items != nil && schema.Items.Schema != nil {
			for i, item := range v {
				c.prune(fmt.Sprintf("%s[%d]", path, i), item, schema.Items.Schema)
			}
		}
	case string:
		c.checkEnum(path, v, schema)
	}
}

func (c *converter) leftOut(path string) {
	if a := advice[elsewhere.Replace(path)]; a != "" {
		c.note("left out: %s: %s", path, a)
		return
	}
	c.note("left out: %s", path)
}

// checkEnum reports a value that is not available. It stays, so that the resource is refused
// and not run with less than it states.
func (c *converter) checkEnum(path, value string, schema *apiextensionsv1.JSONSchemaProps) {
	if len(schema.Enum) == 0 {
		return
	}
	var values []string
	for _, one := range schema.Enum {
		values = append(values, strings.Trim(string(one.Raw), `"`))
	}
	if !slices.Contains(values, value) {
		c.refused = true
		c.note("%s: %q is not available, and the API server will refuse the resource; choose one of %s", path, value, strings.Join(values, ", "))
	}
}

// isEmpty reports whether a value states nothing.
func isEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}
