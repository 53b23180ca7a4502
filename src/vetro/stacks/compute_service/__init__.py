"""The compute service as stacks see it.

`port` is all that the native back end asks of machines and networks, as a protocol; `adapter`
implements it with the typed HTTP client, `memory` with objects in memory. After this part nothing in
`stacks` knows addresses or bodies of calls. `port` also names what a service may lack
(volumes, load balancers), so that a template is refused before anything is made; `snapshot` reads
objects once, for outputs that must all be of one moment.
"""
