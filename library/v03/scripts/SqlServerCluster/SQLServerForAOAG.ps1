# SQL Server in an availability group: preparation, installation, replicas.

$EndpointPort = 5022
$ListenerPort = 5023
$ShareName = 'SharedWorkDir'

function Enable-TrustedHosts {
    # Lets the nodes reach each other by remote commands.
    Enable-PSRemoting -Force | Out-Null
    Set-Item WSMan:\localhost\Client\TrustedHosts -Value '*' -Force
}

function Disable-Firewall {
    # The nodes are guarded by their security group.
    Set-NetFirewallProfile -All -Enabled False
}

function Test-IsNode {
    param([string] $Name)
    $env:COMPUTERNAME -eq $Name
}

function New-SharedFolderForAOAG {
    # The folder through which the primary node gives backups to the others.
    param([Parameter(Mandatory)] [string] $PrimaryNode)
    if (-not (Test-IsNode $PrimaryNode)) { return }
    $path = "C:\$ShareName"
    New-Item -ItemType Directory -Path $path -Force | Out-Null
    if (-not (Get-SmbShare -Name $ShareName -ErrorAction SilentlyContinue)) {
        New-SmbShare -Name $ShareName -Path $path -FullAccess 'Authenticated Users' | Out-Null
    }
}

function Install-SQLServerForAOAG {
    # The engine, run by an account of the domain.
    param(
        [Parameter(Mandatory)] [string] $SQLServiceUserDomain,
        [Parameter(Mandatory)] [string] $SQLServiceUserName,
        [Parameter(Mandatory)] [string] $SQLServiceUserPassword
    )
    Invoke-SQLServerSetup -Options (New-SQLServerOptions -ServiceAccount "$SQLServiceUserDomain\$SQLServiceUserName" -ServicePassword $SQLServiceUserPassword)
}

function Install-SqlServerPowerShellModule {
    # The module that the next steps use comes with the prerequisites.
    if (Get-Module -ListAvailable -Name SQLPS, SqlServer) { return }
    foreach ($package in 'SQLSysClrTypes.msi', 'SharedManagementObjects.msi', 'PowerShellTools.msi') {
        $file = Join-Path 'C:\Prerequisites\SQLServer' $package
        if (-not (Test-Path $file)) { throw "$file is missing" }
        $process = Start-Process msiexec.exe -ArgumentList '/i', "`"$file`"", '/qn', '/norestart' -Wait -PassThru
        if ($process.ExitCode -notin 0, 3010) { throw "${package}: msiexec ended with $($process.ExitCode)" }
    }
}

function Invoke-Sql {
    # One statement on a node's default instance.
    param([Parameter(Mandatory)] [string] $Node, [Parameter(Mandatory)] [string] $Query)
    Invoke-Sqlcmd -ServerInstance $Node -Query $Query -QueryTimeout 600 -ErrorAction Stop
}

function ConvertTo-SqlName { param([string] $Name) "[$($Name -replace ']', ']]')]" }

function Initialize-AlwaysOnAvailabilityGroup {
    # Turns the feature on for this node and opens the endpoint of the replicas.
    param([string] $DomainName, [string] $DomainAdminAccountName, [string] $DomainAdminAccountPassword, [string[]] $NodeList, [string] $PrimaryNode)
    Enable-SqlAlwaysOn -ServerInstance $env:COMPUTERNAME -Force
    Invoke-Sql $env:COMPUTERNAME @"
IF NOT EXISTS (SELECT 1 FROM sys.endpoints WHERE name = 'AlwaysOn')
    CREATE ENDPOINT [AlwaysOn] STATE = STARTED AS TCP (LISTENER_PORT = $EndpointPort) FOR DATABASE_MIRRORING (ROLE = ALL);
"@
    $account = ConvertTo-SqlName "$DomainName\$DomainAdminAccountName"
    Invoke-Sql $env:COMPUTERNAME "IF SUSER_ID('$DomainName\$DomainAdminAccountName') IS NULL CREATE LOGIN $account FROM WINDOWS; GRANT CONNECT ON ENDPOINT::[AlwaysOn] TO $account;"
}

function Initialize-AOAGPrimaryReplica {
    # Creates databases, group and listener; acts on the primary node only.
    param(
        [string] $UserName, [string] $UserPassword, [string] $DomainName, [string[]] $NodeList, [string] $PrimaryNode,
        [string] $GroupName, [string] $ListenerName, [string] $ListenerIP, [string[]] $SyncModeNodeList, [string[]] $DatabaseList
    )
    if (-not (Test-IsNode $PrimaryNode)) { return }
    $group = ConvertTo-SqlName $GroupName
    $exists = Invoke-Sql $PrimaryNode "SELECT 1 AS Found FROM sys.availability_groups WHERE name = '$($GroupName -replace "'", "''")'"
    if ($exists) { return }
    foreach ($database in $DatabaseList) {
        $name = ConvertTo-SqlName $database
        Invoke-Sql $PrimaryNode "IF DB_ID('$database') IS NULL CREATE DATABASE $name; ALTER DATABASE $name SET RECOVERY FULL;"
        Invoke-Sql $PrimaryNode "BACKUP DATABASE $name TO DISK = '\\$PrimaryNode\$ShareName\$database.bak' WITH INIT;"
        Invoke-Sql $PrimaryNode "BACKUP LOG $name TO DISK = '\\$PrimaryNode\$ShareName\$database.trn' WITH INIT;"
    }
    $replicas = foreach ($node in $NodeList) {
        $mode = if ($SyncModeNodeList -contains $node) { 'SYNCHRONOUS_COMMIT' } else { 'ASYNCHRONOUS_COMMIT' }
        "N'$node' WITH (ENDPOINT_URL = 'TCP://$node.${DomainName}:$EndpointPort', AVAILABILITY_MODE = $mode, FAILOVER_MODE = MANUAL)"
    }
    $databases = ($DatabaseList | ForEach-Object { ConvertTo-SqlName $_ }) -join ', '
    $for = if ($databases) { "FOR DATABASE $databases" } else { 'FOR' }
    Invoke-Sql $PrimaryNode "CREATE AVAILABILITY GROUP $group $for REPLICA ON $($replicas -join ', ');"
    $mask = '255.255.255.0'
    Invoke-Sql $PrimaryNode "ALTER AVAILABILITY GROUP $group ADD LISTENER N'$(($ListenerName -split '\.')[0])' (WITH IP ((N'$ListenerIP', N'$mask')), PORT = $ListenerPort);"
}

function Initialize-AOAGSecondaryReplica {
    # Joins this node to the group and restores what the primary gave; acts on the other nodes only.
    param([string] $UserName, [string] $UserPassword, [string] $DomainName, [string[]] $NodeList, [string] $PrimaryNode)
    if (Test-IsNode $PrimaryNode) { return }
    $here = $env:COMPUTERNAME
    foreach ($row in Invoke-Sql $PrimaryNode 'SELECT name FROM sys.availability_groups') {
        $group = ConvertTo-SqlName $row.name
        if (-not (Invoke-Sql $here "SELECT 1 AS Found FROM sys.availability_groups WHERE name = '$($row.name -replace "'", "''")'")) {
            Invoke-Sql $here "ALTER AVAILABILITY GROUP $group JOIN;"
        }
        foreach ($backup in Get-ChildItem "\\$PrimaryNode\$ShareName\*.bak") {
            $database = $backup.BaseName
            if (Invoke-Sql $here "SELECT 1 AS Found WHERE DB_ID('$database') IS NOT NULL") { continue }
            $name = ConvertTo-SqlName $database
            Invoke-Sql $here "RESTORE DATABASE $name FROM DISK = '$($backup.FullName)' WITH NORECOVERY;"
            Invoke-Sql $here "RESTORE LOG $name FROM DISK = '\\$PrimaryNode\$ShareName\$database.trn' WITH NORECOVERY;"
            Invoke-Sql $here "ALTER DATABASE $name SET HADR AVAILABILITY GROUP = $group;"
        }
    }
}
