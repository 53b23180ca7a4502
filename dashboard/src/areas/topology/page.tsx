import '@xyflow/react/dist/style.css';

import { Button, Card, Group, Stack, Table, Text, TextInput, Title, useComputedColorScheme } from '@mantine/core';
import { IconBox, IconDownload, IconNetwork, IconPuzzle, IconSearch, IconServer, IconSitemap } from '@tabler/icons-react';
import { Background, Controls, MiniMap, Position, ReactFlow, ReactFlowProvider, useReactFlow, type Edge, type Node, type NodeProps } from '@xyflow/react';
import { memo, useDeferredValue, useEffect, useMemo, useRef, useState } from 'react';
import { useTexts } from '~/i18n';
import { Empty } from '~/ui/page';
import { useShownEnvironment } from '../environment/shown';
import { drawn, pngOf, save } from './drawing';
import { layout, topologyOf, type TopologyNode } from './graph';
import { messages } from './messages';
import classes from './page.module.css';

type Drawn = Node<{ node: TopologyNode; dim: boolean }, 'object'>;
const ICONS = { environment: IconBox, component: IconPuzzle, server: IconServer, network: IconNetwork, object: IconPuzzle };

export function TopologyPage() {
  return (
    <ReactFlowProvider>
      <Graph />
    </ReactFlowProvider>
  );
}

const Box = memo(function Box({ data }: NodeProps<Drawn>) {
  const { node, dim } = data;
  const Icon = ICONS[node.kind];
  return (
    <div className={classes.node} data-kind={node.kind} data-dim={dim || undefined}>
      <Icon size={20} stroke={1.6} aria-hidden />
      <div className={classes.texts}>
        <div className={classes.name}>{node.name}</div>
        <div className={classes.below}>{node.addresses.join(', ') || node.type.split('.').pop()}</div>
      </div>
    </div>
  );
});

const WIDTH = 220;
const HEIGHT = 56;
// Where lines end is known, so nothing is drawn and measured for it.
const ENDS: NonNullable<Drawn['handles']> = [
  { type: 'target', position: Position.Left, x: 0, y: HEIGHT / 2, width: 1, height: 1 },
  { type: 'source', position: Position.Right, x: WIDTH, y: HEIGHT / 2, width: 1, height: 1 },
];

const nodeTypes = { object: Box };

function fits(node: TopologyNode, wanted: string): boolean {
  return !wanted || [node.name, node.type, ...node.addresses].some((one) => one.toLowerCase().includes(wanted));
}

function Graph() {
  const t = useTexts(messages);
  const scheme = useComputedColorScheme();
  const { environment, components } = useShownEnvironment();
  const flow = useReactFlow();
  const ground = useRef<HTMLDivElement>(null);
  const [typed, setTyped] = useState('');
  const wanted = useDeferredValue(typed).trim().toLowerCase();
  const [chosen, setChosen] = useState<string | null>(null);
  const text = JSON.stringify(components);
  // eslint-disable-next-line react-hooks/exhaustive-deps -- the text says whether the model changed
  const topology = useMemo(() => topologyOf({ id: environment?.id ?? '', name: environment?.name ?? '' }, components), [environment?.id, environment?.name, text]);
  const places = useMemo(() => layout(topology), [topology]);
  const found = useMemo(() => topology.nodes.filter((one) => fits(one, wanted)), [topology, wanted]);
  const nodes = useMemo<Drawn[]>(() => {
    const ids = new Set(found.map((one) => one.id));
    return topology.nodes.map((node) => ({
      id: node.id,
      type: 'object',
      position: places.get(node.id) ?? { x: 0, y: 0 },
      data: { node, dim: wanted !== '' && !ids.has(node.id) },
      ariaLabel: `${t(`kind_${node.kind}`)} ${node.name} ${node.addresses.join(' ')}`,
      width: WIDTH,
      height: HEIGHT,
      handles: ENDS,
      draggable: false,
      connectable: false,
    }));
  }, [topology, places, found, wanted, t]);
  const edges = useMemo<Edge[]>(
    () => topology.edges.map(({ from, to, kind }) => ({ id: `${kind}-${from}-${to}`, source: from, target: to, focusable: false, className: kind === 'refers' ? (classes.refers ?? '') : '' })),
    [topology],
  );
  const first = wanted ? found[0]?.id : undefined;
  useEffect(() => {
    if (first) void flow.fitView({ nodes: [{ id: first }], duration: 200, maxZoom: 1.2 });
  }, [first, flow]);
  if (!environment) return null;
  if (components.length === 0) {
    return (
      <Empty icon={IconSitemap} title={t('emptyTitle')}>
        {t('empty')}
      </Empty>
    );
  }
  const file = environment.name.replace(/[^\w-]+/g, '_') || 'topology';
  const svg = () => drawn(topology, places);
  const details = topology.nodes.find((one) => one.id === chosen);
  return (
    <Stack>
      <Group justify="space-between">
        <Group gap="sm">
          <TextInput type="search" aria-label={t('search')} placeholder={t('search')} leftSection={<IconSearch size={16} />} w={300} value={typed} onChange={(event) => setTyped(event.currentTarget.value)} />
          <Text size="sm" c="dimmed" role="status">
            {wanted && t('found', { count: found.length })}
          </Text>
        </Group>
        <Group gap="xs">
          <Button variant="default" size="xs" leftSection={<IconDownload size={14} />} onClick={() => save(new Blob([svg()], { type: 'image/svg+xml' }), `${file}.svg`)}>
            {t('svg')}
          </Button>
          <Button variant="default" size="xs" leftSection={<IconDownload size={14} />} onClick={() => void pngOf(svg()).then((blob) => save(blob, `${file}.png`))}>
            {t('png')}
          </Button>
        </Group>
      </Group>
      <div ref={ground} className={classes.ground} role="group" aria-label={t('graph', { name: environment.name })}>
        <ReactFlow
          nodes={nodes}
          edges={edges}
          nodeTypes={nodeTypes}
          colorMode={scheme}
          fitView
          fitViewOptions={{ maxZoom: 1 }}
          minZoom={0.05}
          onlyRenderVisibleElements={topology.nodes.length > 300}
          onMoveStart={() => ground.current?.setAttribute('data-moving', '')}
          onMoveEnd={() => ground.current?.removeAttribute('data-moving')}
          nodesConnectable={false}
          edgesFocusable={false}
          deleteKeyCode={null}
          onSelectionChange={({ nodes: selected }) => setChosen(selected[0]?.id ?? null)}
          proOptions={{ hideAttribution: true }}
        >
          <Background gap={22} />
          <Controls showInteractive={false} />
          {topology.nodes.length > 30 && <MiniMap pannable zoomable />}
        </ReactFlow>
      </div>
      {details && <Details node={details} />}
    </Stack>
  );
}

function Details({ node }: { node: TopologyNode }) {
  const t = useTexts(messages);
  return (
    <Card padding="md" component="section" aria-label={t('details')}>
      <Title order={2} mb="xs">
        {node.name}
      </Title>
      <Table verticalSpacing={4} withRowBorders={false}>
        <Table.Tbody>
          <Table.Tr>
            <Table.Th w={180}>{t('type')}</Table.Th>
            <Table.Td style={{ overflowWrap: 'anywhere' }}>{node.type}</Table.Td>
          </Table.Tr>
          {node.addresses.length > 0 && (
            <Table.Tr>
              <Table.Th>{t('addresses')}</Table.Th>
              <Table.Td>{node.addresses.join(', ')}</Table.Td>
            </Table.Tr>
          )}
          {node.facts.map(([name, value]) => (
            <Table.Tr key={name}>
              <Table.Th>{name}</Table.Th>
              <Table.Td style={{ overflowWrap: 'anywhere' }}>{value}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Card>
  );
}
