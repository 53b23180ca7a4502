#: start
URL=${OS_AUTH_URL%/identity/v3} TOKEN=$(vetro token)
call() { curl --silent --show-error --fail-with-body --compressed -H "X-Auth-Token: $TOKEN" "$@"; }
field() { python3 -c "import json, sys; print(json.load(sys.stdin)['$1'])"; }
#: environments
ID=$(call --json '{"name": "by-curl", "region": null}' "$URL/v1/environments" | field id)
call "$URL/v1/environments?limit=10&status=ready"
TAG=$(call -o /dev/null -w '%header{etag}' "$URL/v1/environments/$ID")
call -X PUT -H "If-Match: $TAG" --json '{"name": "renamed"}' "$URL/v1/environments/$ID"
#: sessions
SESSION=$(call -X POST "$URL/v1/environments/$ID/configure" | field id)
call "$URL/v1/environments/$ID/sessions/$SESSION"
call "$URL/v1/environments/$ID/sessions"
#: services
call -H "X-Configuration-Session: $SESSION" \
  --json '{"?": {"type": "io.murano.Application", "id": "web"}, "name": "web"}' "$URL/v1/environments/$ID/services"
call -X PUT -H "X-Configuration-Session: $SESSION" --json '"shop"' "$URL/v1/environments/$ID/services/web/name"
call -H "X-Configuration-Session: $SESSION" "$URL/v1/environments/$ID/services"
call -X DELETE -H "X-Configuration-Session: $SESSION" "$URL/v1/environments/$ID/services/web"
#: model
call -X PATCH -H "X-Configuration-Session: $SESSION" -H 'Content-Type: application/env-model-json-patch' \
  --data '[{"op": "replace", "path": "/region", "value": "RegionOne"}]' "$URL/v1/environments/$ID/model/"
call -H "X-Configuration-Session: $SESSION" "$URL/v1/environments/$ID/model/defaultNetworks"
#: deployments
call -X POST "$URL/v1/environments/$ID/sessions/$SESSION/deploy"
DEPLOYMENT=$(call "$URL/v1/environments/$ID/deployments?limit=1" |
  python3 -c "import json, sys; print(json.load(sys.stdin)['deployments'][0]['id'])")
call --no-buffer "$URL/v1/environments/$ID/deployments/$DEPLOYMENT/events"
call "$URL/v1/environments/$ID/deployments/$DEPLOYMENT"
call "$URL/v1/environments/$ID/lastStatus"
call -X DELETE "$URL/v1/environments/$ID?abandon=true"
#: categories
CATEGORY=$(call --json '{"name": "Examples"}' "$URL/v1/catalog/categories" | field id)
call "$URL/v1/catalog/categories?sort_keys=name&limit=5"
#: packages
vetro package new org.example.Hello && vetro package build --output . Hello
PACKAGE=$(call -F '__metadata__={"categories": ["Examples"], "tags": ["curl"]}' -F package=@org.example.Hello.zip \
  "$URL/v1/catalog/packages" | field id)
call "$URL/v1/catalog/packages?search=hello&limit=5&order_by=created&sort_dir=desc"
call -X PATCH -H 'Content-Type: application/murano-packages-json-patch' \
  --data '[{"op": "replace", "path": "/tags", "value": ["greeting"]}]' "$URL/v1/catalog/packages/$PACKAGE"
call -o copy.zip "$URL/v1/catalog/packages/$PACKAGE/download"
call "$URL/v1/catalog/packages/$PACKAGE/ui"
call -X DELETE "$URL/v1/catalog/packages/$PACKAGE"
call -X DELETE "$URL/v1/catalog/categories/$CATEGORY"
#: templates
TEMPLATE=$(call --json '{"name": "of-curl", "is_public": true}' "$URL/v1/templates" | field id)
call --json '{"?": {"type": "io.murano.Application", "id": "web"}, "name": "web"}' "$URL/v1/templates/$TEMPLATE/services"
MADE=$(call --json '{"name": "from-template"}' "$URL/v1/templates/$TEMPLATE/create-environment" | field environment_id)
COPY=$(call --json '{"name": "copied"}' "$URL/v1/templates/$TEMPLATE/clone" | field id)
call -X DELETE "$URL/v1/environments/$MADE?abandon=true"
call -X DELETE "$URL/v1/templates/$TEMPLATE"
call -X DELETE "$URL/v1/templates/$COPY"
#: schemas
call "$URL/v1/schemas/io.murano.Environment"
#: flavors
call "$URL/v1/flavors"
call "$URL/v1/networks"
#: identity
call "$URL/identity/v3/auth/projects"
call -H "X-Subject-Token: $TOKEN" "$URL/identity/v3/auth/tokens"
#: repository
call "$URL/repository/v1/client/ui" -o services.tar.gz
