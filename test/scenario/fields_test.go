//go:build integration

package scenario

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/toolhaven/toolhaven/internal/externalauth"
)

// testedElsewhere are the fields of an MCPExternalAuthConfig that no script sets, or that begin
// those, and where they are tested.
var testedElsewhere = map[string]string{
	"spec.embeddedAuthServer.storage.redis.clusterMode":                                     "authserver/storage/redis: TestCluster",
	"spec.embeddedAuthServer.storage.redis.sentinelConfig":                                  "authserver/storage/redis: TestSentinel, TestServiceAddr",
	"spec.embeddedAuthServer.storage.redis.sentinelTls":                                     "authserver/storage/redis: TestSentinel",
	"spec.embeddedAuthServer.storage.redis.tls.insecureSkipVerify":                          "authserver/storage/redis: TestTLS",
	"spec.embeddedAuthServer.upstreamProviders.oauth2Config.dcrConfig.registrationEndpoint": "authserver/upstream: TestRegistration_Request, _Endpoint",
	"spec.embeddedAuthServer.upstreamProviders.oauth2Config.dcrConfig.softwareStatement":    "authserver/upstream: TestRegistration_Request, _Endpoint",
	"spec.embeddedAuthServer.upstreamProviders.oauth2Config.userInfo.additionalHeaders":     "the script sets it in userInfoOverride, which is the same type",
	"spec.embeddedAuthServer.upstreamProviders.oauth2Config.userInfo.httpMethod":            "as above",
	"spec.embeddedAuthServer.upstreamProviders.oauth2Config.userInfo.fieldMapping":          "as above",
}

// TestAuthFields fails for a field of MCPExternalAuthConfig (specification 2.3) that no script
// runs through the built program.
func TestAuthFields(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]bool{}
	for _, script := range scripts {
		content, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range txtar.Parse(content).Files {
			if !bytes.Contains(file.Data, []byte("kind: "+externalauth.Kind)) {
				continue
			}
			// Faults are some scripts' purpose, and placeholders of others are some.
			resources, _ := externalauth.Parse(file.Data)
			for _, r := range resources {
				fieldsSet(reflect.ValueOf(r.Spec), "spec", set)
			}
		}
	}
	all := map[string]bool{}
	fieldsOf(reflect.TypeFor[externalauth.Spec](), "spec", all)
	for _, field := range slices.Sorted(maps.Keys(all)) {
		elsewhere := false
		for begin := range testedElsewhere {
			elsewhere = elsewhere || field == begin || strings.HasPrefix(field, begin+".")
		}
		switch {
		case !set[field] && !elsewhere:
			t.Errorf("no script sets %s", field)
		case set[field] && elsewhere:
			t.Errorf("a script sets %s; remove it from testedElsewhere", field)
		}
	}
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// fieldsOf adds the paths of all fields of a type.
func fieldsOf(t reflect.Type, path string, all map[string]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		all[path] = true
		return
	}
	for i := range t.NumField() {
		fieldsOf(t.Field(i).Type, path+"."+jsonName(t.Field(i)), all)
	}
}

// fieldsSet adds the paths of the fields that are not zero.
func fieldsSet(v reflect.Value, path string, set map[string]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fieldsSet(v.Elem(), path, set)
		}
	case reflect.Slice:
		for i := range v.Len() {
			fieldsSet(v.Index(i), path, set)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fieldsSet(v.Field(i), path+"."+jsonName(v.Type().Field(i)), set)
		}
	default:
		if !v.IsZero() {
			set[path] = true
		}
	}
}
