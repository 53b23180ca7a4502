#ps1
# First boot of a Windows instance: certificate of the broker, configuration of the agent, host name.

$ErrorActionPreference = 'Stop'
$agentConfig = [Text.Encoding]::UTF8.GetString([Convert]::FromBase64String('%AGENT_CONFIG_BASE64%'))
Set-Content -Path 'C:\Murano\Agent\agent.conf' -Value $agentConfig -Encoding UTF8
$certificate = '%CA_ROOT_CERT_BASE64%'
if ($certificate) {
    [IO.File]::WriteAllBytes('C:\Murano\ca.cer', [Convert]::FromBase64String($certificate))
    Import-Certificate -FilePath 'C:\Murano\ca.cer' -CertStoreLocation 'Cert:\LocalMachine\Root' | Out-Null
}
[Environment]::SetEnvironmentVariable('MuranoFileShare', '\\%MURANO_SERVER_ADDRESS%\share', 'Machine')
Set-Service -Name 'Murano Agent' -StartupType Automatic
if ($env:COMPUTERNAME -ne '%INTERNAL_HOSTNAME%') {
    Rename-Computer -NewName '%INTERNAL_HOSTNAME%' -Force
    Restart-Computer -Force
} else {
    Start-Service -Name 'Murano Agent'
}
