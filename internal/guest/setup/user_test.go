package setup

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const passwd = `# a remark
root:x:0:0:root:/root:/bin/sh
node:x:1000:1001:Node,,,:/home/node:/bin/bash
node:x:1:1:a second of that name:/nowhere:/bin/false
homeless:x:1002:1002:::
short:x:1003:1003
1004:x:7:8:a name that is a number:/seven:/bin/false
broken:x:many:1:::
negative:x:-1:1:::
huge:x:4294967296:1:::
`

const group = `root:x:0:
node:x:1001:
audio:x:29:node,homeless
video:x:44:other,node
1005:x:9:
broken:x:many:node
`

func accounts() fs.FS {
	return fstest.MapFS{"etc/passwd": {Data: []byte(passwd)}, "etc/group": {Data: []byte(group)}}
}

// OCI image-spec, config.md, User, as Docker and Podman read it.
func TestLookup(t *testing.T) {
	for spec, want := range map[string]identity{
		"":             {uid: 0, gid: 0, groups: []int{0}, home: "/root"},
		"root":         {uid: 0, gid: 0, groups: []int{0}, home: "/root"},
		"0:0":          {uid: 0, gid: 0, groups: []int{0}, home: "/root"},
		"node":         {uid: 1000, gid: 1001, groups: []int{1001, 29, 44}, home: "/home/node"},
		"1000":         {uid: 1000, gid: 1001, groups: []int{1001, 29, 44}, home: "/home/node"},
		"node:audio":   {uid: 1000, gid: 29, groups: []int{29}, home: "/home/node"},
		"node:29":      {uid: 1000, gid: 29, groups: []int{29}, home: "/home/node"},
		"node:4000":    {uid: 1000, gid: 4000, groups: []int{4000}, home: "/home/node"},
		"1000:video":   {uid: 1000, gid: 44, groups: []int{44}, home: "/home/node"},
		"node:":        {uid: 1000, gid: 1001, groups: []int{1001, 29, 44}, home: "/home/node"},
		":audio":       {uid: 0, gid: 29, groups: []int{29}, home: "/root"},
		"homeless":     {uid: 1002, gid: 1002, groups: []int{1002, 29}, home: "/"},
		"short":        {uid: 1003, gid: 1003, groups: []int{1003}, home: "/"},
		"65532":        {uid: 65532, gid: 0, groups: []int{0}, home: "/"},
		"65532:65532":  {uid: 65532, gid: 65532, groups: []int{65532}, home: "/"},
		"1004":         {uid: 7, gid: 8, groups: []int{8}, home: "/seven"},
		"node:1005":    {uid: 1000, gid: 9, groups: []int{9}, home: "/home/node"},
		"2147483647:1": {uid: 2147483647, gid: 1, groups: []int{1}, home: "/"},
	} {
		got, err := lookup(accounts(), spec)
		if err != nil {
			t.Errorf("%q: %v", spec, err)
			continue
		}
		if diff := cmp.Diff(want, *got, cmp.AllowUnexported(identity{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", spec, diff)
		}
	}
}

func TestLookup_ImageWithoutAccounts(t *testing.T) {
	got, err := lookup(fstest.MapFS{}, "10001:10002")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(identity{uid: 10001, gid: 10002, groups: []int{10002}, home: "/"}, *got, cmp.AllowUnexported(identity{})); diff != "" {
		t.Error(diff)
	}
}

// In doubt the lookup fails: above all the user does not become root.
func TestLookup_UnknownUsers(t *testing.T) {
	for _, spec := range []string{
		"nobody", "nobody:node", "node:nobody", "broken", "negative", "huge", "-1", "-1:-1", "0x3e8", "1e3", "4294967296", "2147483648",
		"node:-1", "node:4294967296", "node:broken", " node", "no de", "node\n", "+",
	} {
		if got, err := lookup(accounts(), spec); err == nil {
			t.Errorf("%q is %+v", spec, got)
		}
	}
}

func TestLookup_HostileAccountFiles(t *testing.T) {
	long := strings.Repeat("x", 2*maxLine)
	for name, root := range map[string]fstest.MapFS{
		"passwd is a directory":      {"etc/passwd/x": {}},
		"passwd is a pipe":           {"etc/passwd": {Mode: fs.ModeNamedPipe}},
		"passwd is a device":         {"etc/passwd": {Mode: fs.ModeDevice | fs.ModeCharDevice}},
		"passwd has an endless line": {"etc/passwd": {Data: []byte(long)}},
		"the name comes too late":    {"etc/passwd": {Data: []byte(strings.Repeat("\n", maxAccounts) + passwd)}},
		"group is a pipe":            {"etc/passwd": {Data: []byte(passwd)}, "etc/group": {Mode: fs.ModeNamedPipe}},
	} {
		if got, err := lookup(root, "node"); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	many := fstest.MapFS{"etc/passwd": {Data: []byte(passwd)}, "etc/group": {Data: []byte(strings.Repeat("g:x:5:node\n", 2*maxGroups))}}
	if got, err := lookup(many, "node"); err != nil || len(got.groups) != maxGroups+1 {
		t.Errorf("in a great many groups: %d of them, %v", len(got.groups), err)
	}
}

func FuzzLookup(f *testing.F) {
	f.Add("node:audio", passwd, group)
	f.Add("", "", "")
	f.Add("1000", "::::", ":::")
	f.Fuzz(func(t *testing.T, spec, passwd, group string) {
		who, err := lookup(fstest.MapFS{"etc/passwd": {Data: []byte(passwd)}, "etc/group": {Data: []byte(group)}}, spec)
		if err == nil && (who.uid < 0 || who.uid > maxID || who.gid < 0 || who.gid > maxID || who.home == "") {
			t.Errorf("%+v", who)
		}
	})
}
